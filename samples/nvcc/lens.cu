// Reads the sensor through a texture object, which mirrors the picture and takes its shear out.
#include "device.cuh"

// Same name as in film/grain.cu on purpose: two variables, which the compiler must keep apart.
static __device__ unsigned long long work_done;

unsigned long long pixels_read() {
  unsigned long long count = 0;
  check_cuda(cudaMemcpyFromSymbol(&count, work_done, sizeof count), "read lens.cu's work_done");
  return count;
}

__global__ void read_sensor(cudaTextureObject_t sensor, unsigned *pixels) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= settings.width * settings.height)
    return;
  int x = i % settings.width, y = i / settings.width;
  // Beyond the rim the texture repeats its last row.
  pixels[i] = tex2D<unsigned>(sensor, settings.width - 1 - x, y + x * settings.shear / settings.width);
  atomicAdd(&work_done, 1ull);
}

void expose(const std::vector<unsigned> &sensor, unsigned *pixels) {
  size_t row = host_settings.width * sizeof(unsigned);
  cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned>();
  cudaArray_t array;
  check_cuda(cudaMallocArray(&array, &format, host_settings.width, host_settings.height), "allocate the sensor");
  check_cuda(cudaMemcpy2DToArray(array, 0, 0, sensor.data(), row, row, host_settings.height, cudaMemcpyHostToDevice),
             "fill the sensor");

  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc reading = {};
  reading.addressMode[0] = reading.addressMode[1] = cudaAddressModeClamp;
  reading.filterMode = cudaFilterModePoint;
  reading.readMode = cudaReadModeElementType;
  cudaTextureObject_t texture;
  check_cuda(cudaCreateTextureObject(&texture, &resource, &reading, nullptr), "create the texture object");

  read_sensor<<<pixel_blocks(), block>>>(texture, pixels);
  check_cuda(cudaGetLastError(), "launch read_sensor");
  check_cuda(cudaDeviceSynchronize(), "run read_sensor");
  check_cuda(cudaDestroyTextureObject(texture), "destroy the texture object");
  check_cuda(cudaFreeArray(array), "free the sensor");
}
