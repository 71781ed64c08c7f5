// Measures how long the driver takes to load fatbins.
//
//   load ROUNDS FILE...
//
// Each round loads each file in turn, so that a change of the GPU's clock meets all of them. A line for each load:
// FILE ROUND MICROSECONDS-OF-cuModuleLoadData MICROSECONDS-UNTIL-THE-FIRST-KERNEL-IS-LOADED KERNELS
// CUDA_MODULE_LOADING=LAZY or EAGER in the environment decides what cuModuleLoadData does.
#include <cuda.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

static void check(CUresult result, const char *what, const char *file) {
  if (result == CUDA_SUCCESS)
    return;
  const char *name = "unknown error";
  cuGetErrorName(result, &name);
  std::fprintf(stderr, "%s: %s: %s\n", file, what, name);
  std::exit(1);
}

static double microseconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - since).count();
}

static void measure(const char *file, const std::string &image, int round) {
  CUmodule module;
  auto start = std::chrono::steady_clock::now();
  check(cuModuleLoadData(&module, image.data()), "cuModuleLoadData", file);
  double loaded = microseconds(start);
  unsigned count = 0;
  CUfunction first;
  check(cuModuleGetFunctionCount(&count, module), "cuModuleGetFunctionCount", file);
  if (count > 0) {
    check(cuModuleEnumerateFunctions(&first, 1, module), "cuModuleEnumerateFunctions", file);
    check(cuFuncLoad(first), "cuFuncLoad", file);
  }
  std::printf("%s %d %.1f %.1f %u\n", file, round, loaded, microseconds(start), count);
  check(cuModuleUnload(module), "cuModuleUnload", file);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s ROUNDS FILE...\n", argv[0]);
    return 2;
  }
  std::vector<std::string> images;
  for (int i = 2; i < argc; ++i) {
    std::ifstream in(argv[i], std::ios::binary);
    images.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    if (!in || images.back().empty()) {
      std::fprintf(stderr, "%s: cannot be read\n", argv[i]);
      return 1;
    }
  }
  CUdevice device;
  CUcontext context;
  check(cuInit(0), "cuInit", argv[0]);
  check(cuDeviceGet(&device, 0), "cuDeviceGet", argv[0]);
  check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain", argv[0]);
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent", argv[0]);
  for (int round = 0; round < std::atoi(argv[1]); ++round)
    for (size_t i = 0; i < images.size(); ++i)
      measure(argv[i + 2], images[i], round);
}
