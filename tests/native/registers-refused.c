// A server that wants registers of its own and has none: it must not get further than this.

#include <cairn/runtime.h>
#include <cairn/sums.h>

int main(void)
{
    cairn_sign(&sums_signature);
    cairn_log("serves without");
    return 0;
}
