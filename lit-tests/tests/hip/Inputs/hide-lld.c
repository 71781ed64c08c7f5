// Preloaded, it hides ld.lld from programs that look whether it is there.
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int statx(int folder, const char *path, int flags, unsigned mask, struct statx *out) {
  if (path && strstr(path, "/ld.lld")) {
    errno = ENOENT;
    return -1;
  }
  return (int)syscall(SYS_statx, folder, path, flags, mask, out);
}
