/* nvFatbin's functions, as this project's library has them. They are those of NVIDIA's library of the same names, from CUDA 12.4 on;
   docs/how-to/nvfatbin.md tells what differs. */
#ifndef FATLINK_NVFATBIN_H
#define FATLINK_NVFATBIN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call came to. */
typedef enum {
  NVFATBIN_SUCCESS = 0,
  NVFATBIN_ERROR_INTERNAL = 1,
  NVFATBIN_ERROR_ELF_ARCH_MISMATCH = 2,
  NVFATBIN_ERROR_ELF_SIZE_MISMATCH = 3,
  NVFATBIN_ERROR_MISSING_PTX_VERSION = 4,
  NVFATBIN_ERROR_NULL_POINTER = 5,
  NVFATBIN_ERROR_COMPRESSION_FAILED = 6,
  NVFATBIN_ERROR_COMPRESSED_SIZE_EXCEEDED = 7,
  NVFATBIN_ERROR_UNRECOGNIZED_OPTION = 8,
  NVFATBIN_ERROR_INVALID_ARCH = 9,
  NVFATBIN_ERROR_INVALID_NVVM = 10,
  NVFATBIN_ERROR_EMPTY_INPUT = 11,
  NVFATBIN_ERROR_MISSING_PTX_ARCH = 12,
  NVFATBIN_ERROR_PTX_ARCH_MISMATCH = 13,
  NVFATBIN_ERROR_MISSING_FATBIN = 14,
  NVFATBIN_ERROR_INVALID_INDEX = 15,
  NVFATBIN_ERROR_IDENTIFIER_REUSE = 16,
  NVFATBIN_ERROR_INTERNAL_PTX_OPTION = 17
} nvFatbinResult;

/* A fatbin under construction. One thread at a time may use it. */
typedef struct _nvFatbinHandle *nvFatbinHandle;

/* Text for a result; NULL for success. It lives as long as the program. */
const char *nvFatbinGetErrorString(nvFatbinResult result);

/* Starts a fatbin. Options, one to a string: -64 (default) or -32, -g, -c, -compress=true|false, -compress-all,
   -compress-mode=default|size|speed|balance|none, -host=linux|windows|mac, -cuda or -opencl;
   of this library alone: -strict (refuse images that no driver or linker could use) and -as=12 (store PTX as nvFatbin 12 does). */
nvFatbinResult nvFatbinCreate(nvFatbinHandle *handle, const char **options, size_t optionsCount);

/* Ends a fatbin and sets the handle to NULL. */
nvFatbinResult nvFatbinDestroy(nvFatbinHandle *handle);

/* Add images. `arch` is a number with or without a or f behind it: "90", "90a". `identifier` and `options` may be NULL. Images may be
   freed after the call. */
nvFatbinResult nvFatbinAddPTX(nvFatbinHandle handle, const char *code, size_t size, const char *arch,
                              const char *identifier, const char *options);
nvFatbinResult nvFatbinAddCubin(nvFatbinHandle handle, const void *code, size_t size, const char *arch,
                                const char *identifier);
nvFatbinResult nvFatbinAddLTOIR(nvFatbinHandle handle, const void *code, size_t size, const char *arch,
                                const char *identifier, const char *options);
nvFatbinResult nvFatbinAddTileIR(nvFatbinHandle handle, const void *code, size_t size, const char *identifier,
                                 const char *options);

/* Adds the relocatable PTX of a host object of nvcc -rdc=true. */
nvFatbinResult nvFatbinAddReloc(nvFatbinHandle handle, const void *code, size_t size);

/* Never adds anything: INVALID_INDEX. */
nvFatbinResult nvFatbinAddIndex(nvFatbinHandle handle, const void *code, size_t size, const char *identifier);

/* Finishes what was added so far, and says how large it is, in bytes. */
nvFatbinResult nvFatbinSize(nvFatbinHandle handle, size_t *size);

/* Writes as many bytes as nvFatbinSize said, which must have been called after the last image was added. */
nvFatbinResult nvFatbinGet(nvFatbinHandle handle, void *buffer);

/* The version of nvFatbin whose bytes these are. */
nvFatbinResult nvFatbinVersion(unsigned int *major, unsigned int *minor);

#ifdef __cplusplus
}
#endif

#endif
