// Gives the whole process, shared libraries included, the prefixed jemalloc: every malloc name is a
// tail call. operator new and delete need nothing here: they end in malloc and free.
#include <stddef.h>

extern void* _rjem_malloc(size_t size);
extern void _rjem_free(void* ptr);
extern void* _rjem_calloc(size_t count, size_t size);
extern void* _rjem_realloc(void* ptr, size_t size);
extern int _rjem_posix_memalign(void** out, size_t alignment, size_t size);
extern void* _rjem_aligned_alloc(size_t alignment, size_t size);
extern size_t _rjem_malloc_usable_size(void* ptr);

void* malloc(size_t size) {
    return _rjem_malloc(size);
}
void free(void* ptr) {
    _rjem_free(ptr);
}
void* calloc(size_t count, size_t size) {
    return _rjem_calloc(count, size);
}
void* realloc(void* ptr, size_t size) {
    return _rjem_realloc(ptr, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
    return _rjem_posix_memalign(out, alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
    return _rjem_aligned_alloc(alignment, size);
}
void* memalign(size_t alignment, size_t size) {
    return _rjem_aligned_alloc(alignment, size);
}
void* valloc(size_t size) {
    return _rjem_aligned_alloc(4096, size);
}
void* pvalloc(size_t size) {
    return _rjem_aligned_alloc(4096, (size + 4095) & ~(size_t)4095);
}
size_t malloc_usable_size(void* ptr) {
    return _rjem_malloc_usable_size(ptr);
}
