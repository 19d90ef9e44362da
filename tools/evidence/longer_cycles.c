// Makes each cycle of a server's thread, from one read() to the next, longer by PERMILLE thousandths of itself: a
// difference of known size between two runs of one server (docs/explanation/accuracy.md).
//
//   for n in 0 10; do gcc -O2 -shared -fPIC -DPERMILLE=$n -o longer$n.so tools/evidence/longer_cycles.c; done
//   perfrunner ab --preload ./longer0.so,./longer10.so 'redis-server --port {port} --save ""'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

static const ssize_t kShortest = 64;       // bytes of a read that brings requests
static const int64_t kLongest = 1000000;   // ns; a longer cycle means that the client was out of turn

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

ssize_t read(int file, void* buffer, size_t size) {
    static ssize_t (*real)(int, void*, size_t);
    static __thread int64_t ended, cycle;
    if (!real) {
        *(void**)&real = dlsym(RTLD_NEXT, "read");
    }
    const ssize_t count = real(file, buffer, size);
    if (count > kShortest) {
        int64_t time = now();
        if (time - ended <= kLongest) {
            cycle = time - ended;
        }
        const int64_t until = time + cycle * PERMILLE / 1000;
        while (time < until) {
            time = now();
        }
        ended = time;
    }
    return count;
}
