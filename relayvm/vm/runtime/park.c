/* Waiting and waking; see park.h. */
#include "park.h"

#include <errno.h>
#include <time.h>

#ifdef __linux__

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void park_wait(_Atomic uint32_t *word, uint32_t value, int64_t limit_ns) {
    struct timespec limit = {.tv_sec = (time_t)(limit_ns / 1000000000), .tv_nsec = (long)(limit_ns % 1000000000)};
    int before = errno;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, limit_ns < 0 ? NULL : &limit, NULL, 0);
    errno = before;
}

void park_wake(_Atomic uint32_t *word) {
    int before = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = before;
}

void park_forget(void) {
}

#else

#include <pthread.h>

/* One pair for all words: who waits here waits long, and looks at its own word again. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

void park_wait(_Atomic uint32_t *word, uint32_t value, int64_t limit_ns) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    int64_t ns = end.tv_nsec + (limit_ns < 0 ? 0 : limit_ns);
    end.tv_sec += (time_t)(ns / 1000000000);
    end.tv_nsec = (long)(ns % 1000000000);
    int late = 0;
    pthread_mutex_lock(&mutex);
    while (atomic_load(word) == value && late != ETIMEDOUT) {
        late = limit_ns < 0 ? pthread_cond_wait(&changed, &mutex) : pthread_cond_timedwait(&changed, &mutex, &end);
    }
    pthread_mutex_unlock(&mutex);
}

/* The lock keeps a waker from coming between a look at the word and the wait for it. */
void park_wake(_Atomic uint32_t *word) {
    (void)word;
    pthread_mutex_lock(&mutex);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

void park_forget(void) {
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&changed, NULL);
}

#endif
