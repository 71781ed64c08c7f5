// Replaces libcudart where no GPU is needed: prints what the program registers with it, and when.
#include <stdio.h>

struct wrapper { unsigned magic, version; const unsigned *image; void *unused; };

void **__cudaRegisterFatBinary(const struct wrapper *wrapper) {
  printf("fatbin %x version %u image %x\n", wrapper->magic, wrapper->version, *wrapper->image);
  return (void **)wrapper;
}

int __cudaRegisterFunction(void **handle, void *host, const char *name) { return !printf("kernel %s\n", name); }

void __cudaRegisterVar(void **handle, void *host, const char *name, const char *device, int external, long size, int constant) {
  printf("variable %s of %ld bytes%s%s\n", name, size, external ? ", extern" : "", constant ? ", constant" : "");
}

void __cudaRegisterManagedVar(void **handle, void **host, void *init, const char *name, long size, int alignment) {
  printf("managed variable %s of %ld bytes, aligned to %d\n", name, size, alignment);
}

void __cudaRegisterFatBinaryEnd(void **handle) { puts("end of fatbin"); }

void __cudaUnregisterFatBinary(void **handle) { puts("unregistered"); }
