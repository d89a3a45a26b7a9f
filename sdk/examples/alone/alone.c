// The one component of the smallest system: it says what there is, and its end is the machine's.

#include <cairn/runtime.h>

int main(void)
{
    cairn_log("nothing else is here");
    return 0;
}
