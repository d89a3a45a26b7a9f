/* A thread ends with many robust mutexes, and another one has them, the one that is marked first at once: it puts them on its own list while the first is walked. cairn-test: cores=4 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MUTEXES = 60, ROUNDS = 150 };
static pthread_mutex_t mutexes[MUTEXES];
static pthread_barrier_t taken;

static void check(int error, const char *what)
{
	if (error) {
		printf("%s: %s\n", what, strerror(error));
		exit(1);
	}
}

/* The last one is first on the list. */
static void *take_all(void *unused)
{
	for (int i = 0; i < MUTEXES; i++)
		check(pthread_mutex_lock(&mutexes[i]), "first lock");
	pthread_barrier_wait(&taken);
	return unused;
}

static int round_with(int protocol)
{
	pthread_mutexattr_t kind;
	pthread_t owner;
	int told = 0;
	pthread_mutexattr_init(&kind);
	pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
	check(pthread_mutexattr_setprotocol(&kind, protocol), "protocol");
	for (int i = 0; i < MUTEXES; i++)
		check(pthread_mutex_init(&mutexes[i], &kind), "init");
	check(pthread_create(&owner, NULL, take_all, NULL), "create");
	pthread_barrier_wait(&taken);
	for (int i = MUTEXES - 1; i >= 0; i--) {
		int error, tries = 0;
		/* The first ones in the middle of the walk; what is never marked stays busy. */
		do {
			error = pthread_mutex_trylock(&mutexes[i]);
			/* Whoever computes gets its turn. */
			if (error == EBUSY && ++tries > 100)
				usleep(1000);
		} while (error == EBUSY && tries < 2000);
		told += error == EOWNERDEAD;
	}
	pthread_join(owner, NULL);
	for (int i = 0; i < MUTEXES; i++) {
		pthread_mutex_consistent(&mutexes[i]);
		pthread_mutex_unlock(&mutexes[i]);
		pthread_mutex_destroy(&mutexes[i]);
	}
	return told == MUTEXES;
}

int main(void)
{
	pthread_barrier_init(&taken, NULL, 2);
	for (int protocol = PTHREAD_PRIO_NONE; protocol <= PTHREAD_PRIO_INHERIT; protocol++) {
		int all = 0;
		for (int round = 0; round < ROUNDS; round++)
			all += round_with(protocol);
		printf("protocol %d: told of every one in %d rounds\n", protocol, all);
	}
	return 0;
}
