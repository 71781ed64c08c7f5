// Develops the photograph on the GPU and on the host, and compares.
//
// Exit status: 0 and a last line PASS, 1 and a last line FAIL, or 77 where there is no GPU. With --attributes the program
// first prints what the CUDA runtime knows of each kernel.
#include "device.cuh"

#include <cstdio>
#include <cstdlib>
#include <cstring>

__constant__ Settings settings;
extern const Settings host_settings = {/*width=*/256, /*height=*/192,      /*shear=*/24,
                                       /*gain=*/400,  /*threshold=*/48000, /*grain=*/20261122};

namespace {

constexpr int exit_no_gpu = 77;

template <typename Kernel> void print_attributes(const char *name, Kernel *kernel) {
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, kernel), "read the attributes of a kernel");
  std::printf("kernel %s: %d registers, %zu shared, %zu local, binary %d, ptx %d\n", name, attributes.numRegs,
              attributes.sharedSizeBytes, attributes.localSizeBytes, attributes.binaryVersion, attributes.ptxVersion);
}

void print_all_attributes() {
  print_attributes("read_sensor", read_sensor);
  print_attributes("develop", develop);
  print_attributes("solarize_tile", solarize_tile);
  print_attributes("solarize_bright_tiles", solarize_bright_tiles);
  print_attributes("sum_levels", sum_levels);
  print_attributes("add_grain", add_grain);
  print_attributes("count_levels", count_levels);
}

Photo device_run(const std::vector<unsigned> &sensor) {
  unsigned long long none = 0;
  check_cuda(cudaMemcpyToSymbol(settings, &host_settings, sizeof host_settings), "set the constants");
  check_cuda(cudaMemcpyToSymbol(solarized, &none, sizeof none), "set solarized");
  Photo photo;
  photo.pixels.resize(sensor.size());
  size_t size = sensor.size() * sizeof(unsigned);
  unsigned *pixels = nullptr;
  check_cuda(cudaMalloc(&pixels, size), "allocate device memory");

  expose(sensor, pixels);
  develop<<<pixel_blocks(), block>>>(pixels);
  check_cuda(cudaGetLastError(), "launch develop");
  grain(pixels);
  solarize_photo(pixels);
  measure(pixels);
  check_cuda(cudaDeviceSynchronize(), "run the kernels");

  check_cuda(cudaMemcpy(photo.pixels.data(), pixels, size, cudaMemcpyDeviceToHost), "download");
  check_cuda(cudaMemcpyFromSymbol(&photo.clipped, clipped, sizeof photo.clipped), "read clipped");
  check_cuda(cudaMemcpyFromSymbol(&photo.solarized, solarized, sizeof photo.solarized), "read solarized");
  photo.histogram.assign(histogram, histogram + bin_count);
  photo.level_sum = level_sum;
  check_cuda(cudaFree(pixels), "free device memory");
  return photo;
}

unsigned long long different(const std::vector<unsigned> &device, const std::vector<unsigned> &host) {
  unsigned long long count = 0;
  for (size_t i = 0; i < host.size(); ++i)
    count += device[i] != host[i];
  return count;
}

// One line for each check; counts what went wrong.
class Checks {
public:
  void equal(const char *what, unsigned long long device, unsigned long long host) {
    std::printf("%-4s %-18s device %llu, host %llu\n", device == host ? "ok" : "BAD", what, device, host);
    ++total_;
    failed_ += device != host;
  }
  int failed() const { return failed_; }
  int total() const { return total_; }

private:
  int failed_ = 0;
  int total_ = 0;
};

} // namespace

void check_cuda(cudaError_t status, const char *what) {
  if (status == cudaSuccess)
    return;
  std::printf("FAIL: cannot %s: %s\n", what, cudaGetErrorName(status));
  std::exit(EXIT_FAILURE);
}

int main(int argc, char **argv) {
  int devices = 0;
  if (cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess) {
    std::printf("no GPU: %s\n", cudaGetErrorString(status));
    return exit_no_gpu;
  }
  if (argc > 1 && std::strcmp(argv[1], "--attributes") == 0)
    print_all_attributes();

  std::vector<unsigned> sensor = sensor_data(host_settings);
  Photo device = device_run(sensor);
  Photo host = reference_run(host_settings, sensor);

  Checks checks;
  checks.equal("wrong pixels", different(device.pixels, host.pixels), 0);
  checks.equal("wrong bins", different(device.histogram, host.histogram), 0);
  checks.equal("clipped pixels", device.clipped, host.clipped);
  checks.equal("solarized tiles", device.solarized, host.solarized);
  checks.equal("sum of levels", device.level_sum, host.level_sum);
  checks.equal("pixels read", pixels_read(), sensor.size());
  checks.equal("pixels grained", pixels_grained(), sensor.size());
  if (checks.failed() > 0) {
    std::printf("FAIL: %d of %d checks\n", checks.failed(), checks.total());
    return EXIT_FAILURE;
  }
  std::printf("PASS\n");
  return EXIT_SUCCESS;
}
