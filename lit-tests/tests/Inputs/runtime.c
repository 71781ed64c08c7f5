// Replaces libcudart where no GPU is needed: prints what the program registers with it, and when.
#include <stdio.h>

struct wrapper { unsigned magic, version; const unsigned *image, **prelinked; };

// A wrapper of version 2 also has the fatbins of the units that were linked, with a null behind them.
static int prelinked_of(const struct wrapper *wrapper) {
  int count = 0;
  while (wrapper->version == 2 && wrapper->prelinked[count])
    count += *wrapper->prelinked[count] == 0xba55ed50 ? 1 : 1000;
  return count;
}

void **__cudaRegisterFatBinary(const struct wrapper *wrapper) {
  printf("fatbin %x version %u image %x", wrapper->magic, wrapper->version, *wrapper->image);
  printf(wrapper->version == 2 ? " of %d units\n" : "\n", prelinked_of(wrapper));
  return (void **)wrapper;
}

// The kernel that was registered last with each address is the one that is launched.
static struct { const void *host; const char *name; } kernels[64];
static int count;

int __cudaRegisterFunction(void **handle, void *host, const char *name) {
  kernels[count].host = host;
  kernels[count++].name = name;
  return !printf("kernel %s\n", name);
}

void __cudaRegisterVar(void **handle, void *host, const char *name, const char *device, int external, long size, int constant) {
  printf("variable %s of %ld bytes%s%s\n", name, size, external ? ", extern" : "", constant ? ", constant" : "");
}

void __cudaRegisterManagedVar(void **handle, void **host, void *init, const char *name, long size, int alignment) {
  printf("managed variable %s of %ld bytes, aligned to %d\n", name, size, alignment);
}

void __cudaRegisterFatBinaryEnd(void **handle) { puts("end of fatbin"); }

void __cudaUnregisterFatBinary(void **handle) { puts("unregistered"); }

// What host code calls to launch a kernel: clang's, and nvcc's.
int cudaLaunchKernel(const void *host) {
  for (int i = count; i-- > 0;)
    if (kernels[i].host == host)
      return !printf("launch of %s\n", kernels[i].name);
  return puts("launch of an unknown kernel");
}
int __cudaLaunchKernel(const void *host) { return cudaLaunchKernel(host); }
int __cudaGetKernel(const void **kernel, const void *host) { return *kernel = host, 0; }
unsigned __cudaPushCallConfiguration(void) { return 0; }
unsigned __cudaPopCallConfiguration(void) { return 0; }
char __cudaInitModule(void **handle) { return 0; }
