// Gives the whole process, shared libraries included, an allocator whose functions have a prefix
// (KV_MALLOC_PREFIX: _rjem_ of jemalloc, mi_ of mimalloc, sn_ of snmalloc): every malloc name is a
// tail call. operator new and delete need nothing here: they end in malloc and free.
#include <stddef.h>

#define KV_JOINED(prefix, function) prefix##function
#define KV_JOIN(prefix, function) KV_JOINED(prefix, function)
#define KV_OWN(function) KV_JOIN(KV_MALLOC_PREFIX, function)

extern void* KV_OWN(malloc)(size_t size);
extern void KV_OWN(free)(void* ptr);
extern void* KV_OWN(calloc)(size_t count, size_t size);
extern void* KV_OWN(realloc)(void* ptr, size_t size);
extern int KV_OWN(posix_memalign)(void** out, size_t alignment, size_t size);
extern void* KV_OWN(aligned_alloc)(size_t alignment, size_t size);
extern size_t KV_OWN(malloc_usable_size)(void* ptr);

void* malloc(size_t size) {
    return KV_OWN(malloc)(size);
}
void free(void* ptr) {
    KV_OWN(free)(ptr);
}
void* calloc(size_t count, size_t size) {
    return KV_OWN(calloc)(count, size);
}
void* realloc(void* ptr, size_t size) {
    return KV_OWN(realloc)(ptr, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
    return KV_OWN(posix_memalign)(out, alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
    return KV_OWN(aligned_alloc)(alignment, size);
}
void* memalign(size_t alignment, size_t size) {
    return KV_OWN(aligned_alloc)(alignment, size);
}
void* valloc(size_t size) {
    return KV_OWN(aligned_alloc)(4096, size);
}
void* pvalloc(size_t size) {
    return KV_OWN(aligned_alloc)(4096, (size + 4095) & ~(size_t)4095);
}
size_t malloc_usable_size(void* ptr) {
    return KV_OWN(malloc_usable_size)(ptr);
}
