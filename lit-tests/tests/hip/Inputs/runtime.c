// A HIP runtime that prints how it is called.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct wrapper { unsigned magic, version; const char *bundle; void *unused; };

void **__hipRegisterFatBinary(const struct wrapper *wrapper) {
  uint64_t count;
  memcpy(&count, wrapper->bundle + 24, 8);
  printf("bundle %x %u %.24s %d %s\n", wrapper->magic, wrapper->version, wrapper->bundle, (int)count,
         wrapper->unused ? "?" : "");
  return (void **)0x1234;
}
void __hipUnregisterFatBinary(void **handle) { printf("unregister %p\n", (void *)handle); }
int __hipRegisterFunction(void **handle, const void *stub, char *device, const char *name, unsigned limit, void *a, void *b,
                          void *c, void *d, int *e) {
  printf("function %p %s %s %d %d%d%d%d%d\n", (void *)handle, device, name, (int)limit, !!a, !!b, !!c, !!d, !!e);
  return 0;
}
void __hipRegisterVar(void **handle, void *variable, char *device, char *name, int is_extern, size_t size, int constant, int global) {
  printf("variable %p %s %s %d %d %d %d\n", (void *)handle, device, name, is_extern, (int)size, constant, global);
}
void __hipRegisterManagedVar(void *handle, void **pointer, void *value, const char *name, size_t size, unsigned align) {
  printf("managed %p %s %d %d %d\n", handle, name, (int)size, (int)align, (void *)pointer != value);
}
void __hipRegisterSurface(void **handle, void *variable, char *device, char *name, int type, int is_extern) {
  printf("surface %p %s %s %d %d\n", (void *)handle, device, name, type, is_extern);
}
void __hipRegisterTexture(void **handle, void *variable, char *device, char *name, int type, int normalized, int is_extern) {
  printf("texture %p %s %s %d %d %d\n", (void *)handle, device, name, type, normalized, is_extern);
}
int hipLaunchKernel(const void *stub) { puts("launch"); return 0; }
int __hipPushCallConfiguration(void) { return 0; }
int __hipPopCallConfiguration(void) { return 0; }
