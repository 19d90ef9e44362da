/* A disk that loses what was not synced, and that can be full.
 *
 * Loaded with LD_PRELOAD. After a successful fsync or fdatasync of a file, $DISK_SYNCED/<inode> holds the size that the
 * file had when the sync began, so that a test can take away the rest as a power cut would. Renames keep the inode.
 * Directories are not looked at.
 *
 * While the file $DISK_FULL exists, files do not grow: half of what is written is taken, then half of the rest, and at
 * last none, so that records are torn as on a real disk. Descriptors up to 2, where the log goes, are left out. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

typedef int (*sync_function)(int);
typedef ssize_t (*write_function)(int, const void*, size_t);
typedef ssize_t (*writev_function)(int, const struct iovec*, int);

static int is_file(int fd, struct stat* status) {
    return fstat(fd, status) == 0 && S_ISREG(status->st_mode);
}

static int synced(int fd, const char* name) {
    const sync_function sync_file = (sync_function)dlsym(RTLD_NEXT, name);
    const char* directory = getenv("DISK_SYNCED");
    struct stat before;
    const int known = is_file(fd, &before);
    const int result = sync_file(fd);
    if (result != 0 || !known || directory == NULL) {
        return result;
    }
    char path[4096];
    char text[32];
    snprintf(path, sizeof path, "%s/%llu", directory, (unsigned long long)before.st_ino);
    snprintf(text, sizeof text, "%020lld", (long long)before.st_size);
    const int record = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (record < 0 || pwrite(record, text, strlen(text), 0) != (ssize_t)strlen(text)) {
        abort(); /* the test would take away what was synced */
    }
    close(record);
    return result;
}

int fsync(int fd) {
    return synced(fd, "fsync");
}

int fdatasync(int fd) {
    return synced(fd, "fdatasync");
}

static int is_full(int fd) {
    const char* flag = getenv("DISK_FULL");
    struct stat status;
    return fd > 2 && flag != NULL && access(flag, F_OK) == 0 && is_file(fd, &status);
}

ssize_t write(int fd, const void* bytes, size_t count) {
    const write_function write_file = (write_function)dlsym(RTLD_NEXT, "write");
    if (count != 0 && is_full(fd)) {
        count /= 2;
        if (count == 0) {
            errno = ENOSPC;
            return -1;
        }
    }
    return write_file(fd, bytes, count);
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
    const writev_function write_parts = (writev_function)dlsym(RTLD_NEXT, "writev");
    if (is_full(fd)) {
        errno = ENOSPC;
        return -1;
    }
    return write_parts(fd, parts, count);
}
