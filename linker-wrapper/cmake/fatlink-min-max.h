// min and max for host code at global scope. nvcc's headers have them for host and device code, clang's for device code alone. The toolchain
// file includes this in front of all CUDA code. As nvcc's, they are no templates, so that a project's own templates do not compete with them.
#ifndef FATLINK_MIN_MAX_H
#define FATLINK_MIN_MAX_H
#if defined(__cplusplus) && defined(__CUDA__)

#define FATLINK_MIN_MAX(type, one, other) \
  static inline type min(one a, other b) { return (type)a < (type)b ? (type)a : (type)b; } \
  static inline type max(one a, other b) { return (type)a < (type)b ? (type)b : (type)a; }
// Of a signed and an unsigned number, the result is unsigned, as that of arithmetic.
#define FATLINK_MIN_MAX_OF(type) \
  FATLINK_MIN_MAX(type, type, type) \
  FATLINK_MIN_MAX(unsigned type, unsigned type, unsigned type) \
  FATLINK_MIN_MAX(unsigned type, type, unsigned type) \
  FATLINK_MIN_MAX(unsigned type, unsigned type, type)
FATLINK_MIN_MAX_OF(int)
FATLINK_MIN_MAX_OF(long)
FATLINK_MIN_MAX_OF(long long)
#undef FATLINK_MIN_MAX_OF
#undef FATLINK_MIN_MAX

// Of a number and a NaN, the number.
static inline float min(float a, float b) { return __builtin_fminf(a, b); }
static inline float max(float a, float b) { return __builtin_fmaxf(a, b); }
static inline double min(double a, double b) { return __builtin_fmin(a, b); }
static inline double max(double a, double b) { return __builtin_fmax(a, b); }
static inline double min(float a, double b) { return __builtin_fmin(a, b); }
static inline double max(float a, double b) { return __builtin_fmax(a, b); }
static inline double min(double a, float b) { return __builtin_fmin(a, b); }
static inline double max(double a, float b) { return __builtin_fmax(a, b); }

#endif
#endif
