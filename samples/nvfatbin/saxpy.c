/* Makes a fatbin at run time and runs it: NVRTC compiles a kernel for two GPUs, nvFatbin bundles the machine code, and the driver picks what
   fits. Build it against NVIDIA's nvFatbin or ours, shared or static; it prints PASS. */
#include <cuda.h>
#include <nvFatbin.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_SIZE (1 << 20)
#define BLOCK_SIZE 256

static const char *const source =
    "extern \"C\" __global__ void saxpy(float a, const float *x, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n)\n"
    "    y[i] = a * x[i] + y[i] + OFFSET;\n"
    "}\n";

static void fail(const char *call, int code, const char *text) {
  fprintf(stderr, "%s: %d (%s)\n", call, code, text ? text : "no text");
  exit(1);
}

#define NVRTC(call) \
  do { nvrtcResult code = (call); if (code != NVRTC_SUCCESS) fail(#call, code, nvrtcGetErrorString(code)); } while (0)
#define FATBIN(call) \
  do { nvFatbinResult code = (call); if (code != NVFATBIN_SUCCESS) fail(#call, code, nvFatbinGetErrorString(code)); } while (0)
#define DRIVER(call) \
  do { CUresult code = (call); if (code != CUDA_SUCCESS) { const char *text = NULL; cuGetErrorString(code, &text); fail(#call, code, text); } } while (0)

/* The kernel as machine code; each GPU's adds an offset of its own, so that the result tells which one ran. */
static char *compile(const char *target, int offset, size_t *size) {
  char arch[64], define[64];
  snprintf(arch, sizeof arch, "--gpu-architecture=sm_%s", target);
  snprintf(define, sizeof define, "--define-macro=OFFSET=%d", offset);
  const char *options[] = {arch, define};
  nvrtcProgram program;
  NVRTC(nvrtcCreateProgram(&program, source, "saxpy.cu", 0, NULL, NULL));
  NVRTC(nvrtcCompileProgram(program, 2, options));
  NVRTC(nvrtcGetCUBINSize(program, size));
  char *cubin = malloc(*size);
  NVRTC(nvrtcGetCUBIN(program, cubin));
  NVRTC(nvrtcDestroyProgram(&program));
  return cubin;
}

static void *bundle(const char *const targets[], int count, size_t *size) {
  const char *options[] = {"-64", "-compress-all"};
  nvFatbinHandle handle;
  FATBIN(nvFatbinCreate(&handle, options, 2));
  for (int i = 0; i < count; ++i) {
    size_t cubin_size;
    char *cubin = compile(targets[i], atoi(targets[i]), &cubin_size);
    FATBIN(nvFatbinAddCubin(handle, cubin, cubin_size, targets[i], "saxpy.cu"));
    free(cubin);
  }
  FATBIN(nvFatbinSize(handle, size));
  void *fatbin = malloc(*size);
  FATBIN(nvFatbinGet(handle, fatbin));
  FATBIN(nvFatbinDestroy(&handle));
  return fatbin;
}

/* Which file the functions come from, if it is not this program. */
static void say_library(void) {
  unsigned int major, minor;
  FATBIN(nvFatbinVersion(&major, &minor));
  printf("nvFatbin %u.%u", major, minor);
  char line[4096], last[4096] = "";
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps)) {
    char *path = strchr(line, '/');
    if (path && strstr(path, "nvfatbin.so") && strcmp(strtok(path, "\n"), last) != 0)
      printf(", %s", strcpy(last, path));
  }
  if (maps)
    fclose(maps);
  printf("\n");
}

int main(int argc, char **argv) {
  const char *const targets[] = {"80", "90"};
  size_t size;
  say_library();
  void *fatbin = bundle(targets, 2, &size);
  printf("a fatbin of %zu bytes\n", size);
  if (argc > 1) {
    FILE *file = fopen(argv[1], "wb");
    if (!file || fwrite(fatbin, 1, size, file) != size || fclose(file) != 0)
      fail("fwrite", 1, argv[1]);
  }

  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction kernel;
  int major;
  DRIVER(cuInit(0));
  DRIVER(cuDeviceGet(&device, 0));
  DRIVER(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  DRIVER(cuDevicePrimaryCtxRetain(&context, device));
  DRIVER(cuCtxSetCurrent(context));
  DRIVER(cuModuleLoadData(&module, fatbin));
  DRIVER(cuModuleGetFunction(&kernel, module, "saxpy"));

  float *x = malloc(ARRAY_SIZE * sizeof *x), *y = malloc(ARRAY_SIZE * sizeof *y);
  for (int i = 0; i < ARRAY_SIZE; ++i) {
    x[i] = (float)(i % 1000);
    y[i] = (float)(i % 77);
  }
  CUdeviceptr device_x, device_y;
  DRIVER(cuMemAlloc(&device_x, ARRAY_SIZE * sizeof *x));
  DRIVER(cuMemAlloc(&device_y, ARRAY_SIZE * sizeof *y));
  DRIVER(cuMemcpyHtoD(device_x, x, ARRAY_SIZE * sizeof *x));
  DRIVER(cuMemcpyHtoD(device_y, y, ARRAY_SIZE * sizeof *y));
  float a = 2.0f;
  int count = ARRAY_SIZE;
  void *arguments[] = {&a, &device_x, &device_y, &count};
  DRIVER(cuLaunchKernel(kernel, (ARRAY_SIZE + BLOCK_SIZE - 1) / BLOCK_SIZE, 1, 1, BLOCK_SIZE, 1, 1, 0, NULL, arguments, NULL));
  DRIVER(cuCtxSynchronize());
  DRIVER(cuMemcpyDtoH(y, device_y, ARRAY_SIZE * sizeof *y));

  float offset = (float)(major * 10);
  for (int i = 0; i < ARRAY_SIZE; ++i) {
    float expected = a * (float)(i % 1000) + (float)(i % 77) + offset;
    if (y[i] != expected) {
      printf("FAIL: y[%d] is %f and not %f\n", i, y[i], expected);
      return 1;
    }
  }
  DRIVER(cuMemFree(device_x));
  DRIVER(cuMemFree(device_y));
  DRIVER(cuModuleUnload(module));
  DRIVER(cuDevicePrimaryCtxRelease(device));
  free(x);
  free(y);
  free(fatbin);
  printf("PASS\n");
  return 0;
}
