// Device symbols that cross translation units. Each is defined in exactly one file, named beside it.
#pragma once

#include "photo.h"

#include <cuda_runtime.h>

extern __constant__ Settings settings;            // main.cu; set by the host
extern __device__ unsigned long long clipped;     // develop.cu; read back by main.cu
extern __device__ unsigned long long solarized;   // solarize.cu; set and read back by main.cu
extern __managed__ unsigned long long level_sum;  // solarize.cu; read by the host as its own
extern __managed__ unsigned histogram[bin_count]; // film/histogram.cu; likewise
using CurveFn = unsigned (*)(unsigned level);
extern __device__ CurveFn curves[CURVE_COUNT]; // develop.cu; called through by its kernel

__device__ void solarize(unsigned *pixels, int left, int top, int first, int step); // develop.cu

// libfilm.a. No host code refers to these two: only the device link can pull their members in.
__device__ unsigned shoulder_curve(unsigned level); // film/shoulder.cu
__device__ unsigned gamma_curve(unsigned level);    // film/gamma.cu

__global__ void read_sensor(cudaTextureObject_t sensor, unsigned *pixels); // lens.cu
__global__ void develop(unsigned *pixels);                                // develop.cu
__global__ void solarize_tile(unsigned *pixels, int left, int top);       // develop.cu; launched by a kernel
__global__ void solarize_bright_tiles(unsigned *pixels);                  // solarize.cu
__global__ void sum_levels(const unsigned *pixels);                       // solarize.cu; launched by a kernel
__global__ void add_grain(unsigned *pixels);                              // film/grain.cu
__global__ void count_levels(const unsigned *pixels);                     // film/histogram.cu

// Host side of the kernels.
void expose(const std::vector<unsigned> &sensor, unsigned *pixels); // lens.cu
unsigned long long pixels_read();                                   // lens.cu
void solarize_photo(unsigned *pixels);                              // solarize.cu
void grain(unsigned *pixels);                                       // film/grain.cu
unsigned long long pixels_grained();                                // film/grain.cu
void measure(const unsigned *pixels);                               // film/histogram.cu

// Prints what went wrong and ends the program with FAIL.
void check_cuda(cudaError_t status, const char *what); // main.cu

// One thread for each pixel.
constexpr int block = 128;
extern const Settings host_settings; // main.cu
inline int pixel_blocks() { return (host_settings.width * host_settings.height + block - 1) / block; }
