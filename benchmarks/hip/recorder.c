// Preloaded into a HIP program: prints how the program registers its device code, and ends it before main.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct wrapper { unsigned magic, version; const char *bundle; void *unused; };

void **__hipRegisterFatBinary(const struct wrapper *wrapper) {
  printf("bundle %x %u %.24s %s\n", wrapper->magic, wrapper->version, wrapper->bundle,
         wrapper->unused ? "?" : "");
  return (void **)0x1234;
}
void __hipUnregisterFatBinary(void **handle) { printf("unregister %p\n", (void *)handle); }
int __hipRegisterFunction(void **handle, const void *stub, char *device, const char *name, unsigned limit, void *a, void *b,
                          void *c, void *d, int *e) {
  printf("function %p %s %s %d %d%d%d%d%d %d\n", (void *)handle, device, name, (int)limit, !!a, !!b, !!c, !!d, !!e, !!stub);
  return 0;
}
void __hipRegisterVar(void **handle, void *variable, char *device, char *name, int is_extern, size_t size, int constant,
                      int global) {
  printf("variable %p %s %s %d %zu %d %d %d\n", (void *)handle, device, name, is_extern, size, constant, global, !!variable);
}
void __hipRegisterManagedVar(void *handle, void **pointer, void *value, const char *name, size_t size, unsigned align) {
  printf("managed %p %s %zu %u %d\n", handle, name, size, align, (void *)pointer != value);
}
void __hipRegisterSurface(void **handle, void *variable, char *device, char *name, int type, int is_extern) {
  printf("surface %p %s %s %d %d\n", (void *)handle, device, name, type, is_extern);
}
void __hipRegisterTexture(void **handle, void *variable, char *device, char *name, int type, int normalized, int is_extern) {
  printf("texture %p %s %s %d %d %d\n", (void *)handle, device, name, type, normalized, is_extern);
}

static int nothing(int argc, char **argv, char **environment) { return 0; }

// The C library runs the constructors between this call and main.
int __libc_start_main(int (*entry)(int, char **, char **), int argc, char **argv, int (*init)(int, char **, char **),
                      void (*fini)(void), void (*loader_fini)(void), void *stack_end) {
  int (*next)(int (*)(int, char **, char **), int, char **, int (*)(int, char **, char **), void (*)(void), void (*)(void),
              void *) = dlsym(RTLD_NEXT, "__libc_start_main");
  return next(nothing, argc, argv, init, fini, loader_fini, stack_end);
}
