/* Counts heap allocations of the program that preloads it; SIGUSR2 prints the count to stderr.
 *
 *     cc -O2 -shared -fPIC -o malloccount.so malloccount.c && LD_PRELOAD=./malloccount.so PROGRAM
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static atomic_long allocations;

void *malloc(size_t size)
{
    allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    allocations++;
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    allocations++;
    return __libc_realloc(old, size);
}

int posix_memalign(void **place, size_t alignment, size_t size)
{
    allocations++;
    *place = __libc_memalign(alignment, size);
    return *place ? 0 : 12; /* ENOMEM */
}

void *aligned_alloc(size_t alignment, size_t size)
{
    allocations++;
    return __libc_memalign(alignment, size);
}

static void print(int signal_number)
{
    char line[64];
    int length = snprintf(line, sizeof line, "allocations %ld\n", (long)allocations);
    (void)signal_number;
    if (write(2, line, (size_t)length) < 0)
        return;
}

__attribute__((constructor)) static void start(void)
{
    signal(SIGUSR2, print);
}
