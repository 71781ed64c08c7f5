/* Loads pairs of cubins, one linked by fatlink and one by nvlink, and compares what the CUDA driver makes of them: see README.md beside this.

   usage: load LIST RESULTS

   Each line of LIST is "load FOLDER" or "run FOLDER", with the files ours.cubin and nvlink.cubin in the folder. Kernels of "run" are
   launched, one thread each, and their results and the variables v* compared. A line "equal", "FAIL" or "skip" goes to RESULTS for each
   pair; those that have one are not done again. Exit status: 0 if all are done, 3 if the driver has to be started anew. */

#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT(name) #name
#define NAME(name) TEXT(name)
#define DRIVER(name) __typeof__(name) *driver_##name
#define LOOK_UP(name) look_up((void **)&driver_##name, NAME(name))

static DRIVER(cuInit);
static DRIVER(cuDeviceGet);
static DRIVER(cuDevicePrimaryCtxRetain);
static DRIVER(cuCtxSetCurrent);
static DRIVER(cuCtxSynchronize);
static DRIVER(cuGetErrorName);
static DRIVER(cuModuleLoadData);
static DRIVER(cuModuleUnload);
static DRIVER(cuModuleGetFunctionCount);
static DRIVER(cuModuleEnumerateFunctions);
static DRIVER(cuModuleGetGlobal);
static DRIVER(cuFuncGetName);
static DRIVER(cuFuncGetAttribute);
static DRIVER(cuFuncGetParamInfo);
static DRIVER(cuFuncLoad);
static DRIVER(cuLaunchKernel);
static DRIVER(cuMemAlloc);
static DRIVER(cuMemcpyHtoD);
static DRIVER(cuMemcpyDtoH);

static void *library;

static void look_up(void **function, const char *name) {
  *function = dlsym(library, name);
  if (!*function) {
    fprintf(stderr, "the driver has no %s\n", name);
    exit(2);
  }
}

static void open_driver(void) {
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  LOOK_UP(cuInit), LOOK_UP(cuDeviceGet), LOOK_UP(cuDevicePrimaryCtxRetain), LOOK_UP(cuCtxSetCurrent);
  LOOK_UP(cuCtxSynchronize), LOOK_UP(cuGetErrorName), LOOK_UP(cuModuleLoadData), LOOK_UP(cuModuleUnload);
  LOOK_UP(cuModuleGetFunctionCount), LOOK_UP(cuModuleEnumerateFunctions), LOOK_UP(cuModuleGetGlobal);
  LOOK_UP(cuFuncGetName), LOOK_UP(cuFuncGetAttribute), LOOK_UP(cuFuncGetParamInfo), LOOK_UP(cuFuncLoad);
  LOOK_UP(cuLaunchKernel), LOOK_UP(cuMemAlloc), LOOK_UP(cuMemcpyHtoD), LOOK_UP(cuMemcpyDtoH);
}

static const char *error_name(CUresult code) {
  const char *name = "?";
  driver_cuGetErrorName(code, &name);
  return name;
}

static char *read_file(const char *folder, const char *name, size_t *size) {
  char path[4096];
  snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name);
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    exit(2);
  }
  fseek(file, 0, SEEK_END);
  *size = ftell(file);
  rewind(file);
  char *bytes = malloc(*size + 1);
  if (fread(bytes, 1, *size, file) != *size) {
    perror(path);
    exit(2);
  }
  fclose(file);
  return bytes;
}

/* What one cubin is to the driver, as text that grows. */
struct facts {
  char *text;
  size_t length, room;
  CUresult fault;
};

#define ADD(facts, ...)                                                                                              \
  do {                                                                                                               \
    if ((facts)->room - (facts)->length < 4096)                                                                      \
      (facts)->text = realloc((facts)->text, (facts)->room = 2 * (facts)->room + 8192);                              \
    (facts)->length += snprintf((facts)->text + (facts)->length, 4096, __VA_ARGS__);                                 \
  } while (0)

struct kernel {
  CUfunction function;
  const char *name;
};

static int by_name(const void *one, const void *other) {
  return strcmp(((const struct kernel *)one)->name, ((const struct kernel *)other)->name);
}

static const struct {
  CUfunction_attribute attribute;
  const char *name;
} ATTRIBUTES[] = {
    {CU_FUNC_ATTRIBUTE_NUM_REGS, "registers"},
    {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, "local"},
    {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, "shared"},
    {CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, "constant"},
    {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "threads"},
    {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, "dynamic"},
    {CU_FUNC_ATTRIBUTE_PTX_VERSION, "ptx"},
    {CU_FUNC_ATTRIBUTE_BINARY_VERSION, "binary"},
};

static void describe(struct facts *facts, const struct kernel *kernel) {
  CUresult loaded = driver_cuFuncLoad(kernel->function);
  ADD(facts, "kernel %.3000s load %s", kernel->name, error_name(loaded));
  for (size_t i = 0; i < sizeof ATTRIBUTES / sizeof *ATTRIBUTES; ++i) {
    int value = -1;
    CUresult code = driver_cuFuncGetAttribute(&value, ATTRIBUTES[i].attribute, kernel->function);
    ADD(facts, " %s %d", ATTRIBUTES[i].name, code ? -(int)code : value);
  }
  size_t offset, size;
  for (int i = 0; driver_cuFuncGetParamInfo(kernel->function, i, &offset, &size) == CUDA_SUCCESS; ++i)
    ADD(facts, " parameter %zu+%zu", offset, size);
  ADD(facts, "\n");
}

enum { WORDS = 1024 };
static CUdeviceptr buffer;

/* Returns whether the driver can go on. */
static int launch(struct facts *facts, const struct kernel *kernel, unsigned number) {
  static uint32_t words[WORDS];
  for (unsigned i = 0; i < WORDS; ++i)
    words[i] = i + number;
  driver_cuMemcpyHtoD(buffer, words, sizeof words);
  void *arguments[] = {&buffer};
  CUresult code = driver_cuLaunchKernel(kernel->function, 1, 1, 1, 1, 1, 1, 256, 0, arguments, 0);
  if (code == CUDA_SUCCESS)
    code = driver_cuCtxSynchronize();
  if (code == CUDA_SUCCESS)
    code = driver_cuMemcpyDtoH(words, buffer, sizeof words);
  uint64_t hash = 1469598103934665603u;
  for (unsigned i = 1; i < WORDS; ++i)
    hash = (hash ^ words[i]) * 1099511628211u;
  ADD(facts, "launch %.3000s %s %08x %016llx\n", kernel->name, error_name(code), words[0], (unsigned long long)hash);
  facts->fault = code;
  return code == CUDA_SUCCESS;
}

/* The visible variables v*, whose names are in the symbol table. */
static void variables(struct facts *facts, CUmodule module, const char *bytes) {
  const Elf64_Ehdr *header = (const void *)bytes;
  const Elf64_Shdr *sections = (const void *)(bytes + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB)
      continue;
    const char *names = bytes + sections[sections[i].sh_link].sh_offset;
    const Elf64_Sym *symbols = (const void *)(bytes + sections[i].sh_offset);
      for (int n = 0; n < 64; ++n) {
        char name[16];
        snprintf(name, sizeof name, "v%d", n);
        for (size_t s = 0; s < sections[i].sh_size / sizeof *symbols; ++s) {
          int is_local = ELF64_ST_BIND(symbols[s].st_info) == STB_LOCAL;
          if (is_local || !symbols[s].st_shndx || strcmp(names + symbols[s].st_name, name))
            continue;
          CUdeviceptr at;
          size_t bytes_of;
          CUresult code = driver_cuModuleGetGlobal(&at, &bytes_of, module, name);
          static unsigned char value[4096];
          if (code == CUDA_SUCCESS && bytes_of <= sizeof value)
            code = driver_cuMemcpyDtoH(value, at, bytes_of);
          uint64_t hash = 1469598103934665603u;
          for (size_t b = 0; code == CUDA_SUCCESS && b < bytes_of; ++b)
            hash = (hash ^ value[b]) * 1099511628211u;
          ADD(facts, "variable %s %s %zu %016llx\n", name, error_name(code), code ? (size_t)0 : bytes_of,
              (unsigned long long)hash);
        }
      }
  }
}

static struct facts facts_of(const char *folder, const char *file, int runs) {
  struct facts facts = {0};
  size_t size;
  char *bytes = read_file(folder, file, &size);
  CUmodule module;
  CUresult code = driver_cuModuleLoadData(&module, bytes);
  ADD(&facts, "module %s\n", error_name(code));
  if (code == CUDA_SUCCESS) {
    unsigned count = 0;
    driver_cuModuleGetFunctionCount(&count, module);
    CUfunction *functions = calloc(count + 1, sizeof *functions);
    struct kernel *kernels = calloc(count + 1, sizeof *kernels);
    driver_cuModuleEnumerateFunctions(functions, count, module);
    for (unsigned i = 0; i < count; ++i) {
      kernels[i].function = functions[i];
      driver_cuFuncGetName(&kernels[i].name, functions[i]);
    }
    qsort(kernels, count, sizeof *kernels, by_name);
    ADD(&facts, "kernels %u\n", count);
    int goes_on = 1;
    for (unsigned i = 0; i < count; ++i)
      describe(&facts, &kernels[i]);
    for (unsigned i = 0; runs && goes_on && i < count; ++i)
      goes_on = launch(&facts, &kernels[i], i + 3);
    if (runs && goes_on)
      variables(&facts, module, bytes);
    if (goes_on)
      driver_cuModuleUnload(module);
    free(functions), free(kernels);
  }
  free(bytes);
  return facts;
}

/* The first lines that differ. */
static void differing(FILE *results, const char *ours, const char *theirs) {
  while (*ours && *theirs) {
    size_t one = strcspn(ours, "\n"), other = strcspn(theirs, "\n");
    if (one != other || memcmp(ours, theirs, one))
      break;
    ours += one + 1, theirs += other + 1;
  }
  fprintf(results, ": ours %.*s | nvlink's %.*s", (int)strcspn(ours, "\n"), ours, (int)strcspn(theirs, "\n"), theirs);
}

/* Returns whether the driver has to be started anew. */
static int compare(FILE *results, const char *folder, int runs) {
  struct facts theirs = facts_of(folder, "nvlink.cubin", runs);
  if (theirs.fault) {
    fprintf(results, "skip %s: nvlink's cubin ends with %s\n", folder, error_name(theirs.fault));
    return 1;
  }
  struct facts ours = facts_of(folder, "ours.cubin", runs);
  if (!strcmp(ours.text, theirs.text)) {
    unsigned lines = 0;
    for (const char *at = ours.text; (at = strstr(at, runs ? "launch " : "kernel ")); ++at)
      ++lines;
    fprintf(results, "equal %s: %u %s\n", folder, lines, runs ? "launches" : "kernels");
  } else if (runs && !ours.fault) {
    struct facts again = facts_of(folder, "nvlink.cubin", runs);
    int is_same = !strcmp(again.text, theirs.text);
    fprintf(results, is_same ? "FAIL %s" : "skip %s: nvlink's differs from itself", folder);
    differing(results, ours.text, theirs.text);
    fputs("\n", results);
    free(again.text);
  } else {
    fprintf(results, "FAIL %s", folder);
    differing(results, ours.text, theirs.text);
    fputs("\n", results);
  }
  int ends = ours.fault != CUDA_SUCCESS;
  free(ours.text), free(theirs.text);
  return ends;
}

/* 0: not begun, 1: begun, 2: done. */
static int state_of(const char *done, const char *folder) {
  char line[4096];
  int state = 0;
  for (const char *const *word = (const char *const[]){"begin", "equal", "FAIL", "skip", NULL}; *word; ++word) {
    int length = snprintf(line, sizeof line, "%s %s", *word, folder);
    for (const char *at = done; (at = strstr(at, line)); ++at) {
      char next = at[length];
      if ((at == done || at[-1] == '\n') && (next == '\n' || next == ':'))
        state = word[0][0] == 'b' ? 1 : 2;
    }
  }
  return state;
}

int main(int count, char **arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: load LIST RESULTS\n");
    return 2;
  }
  FILE *results = fopen(arguments[2], "a+");
  FILE *list = fopen(arguments[1], "r");
  if (!results || !list) {
    perror("load");
    return 2;
  }
  fclose(results);
  size_t size;
  char *done = read_file("", arguments[2], &size);
  done[size] = 0;
  results = fopen(arguments[2], "a");
  open_driver();
  CUdevice device;
  CUcontext context;
  CUresult code = driver_cuInit(0);
  if (code || (code = driver_cuDeviceGet(&device, 0)) || (code = driver_cuDevicePrimaryCtxRetain(&context, device)) ||
      (code = driver_cuCtxSetCurrent(context)) || (code = driver_cuMemAlloc(&buffer, WORDS * 4))) {
    fprintf(stderr, "no GPU: %s\n", error_name(code));
    return 2;
  }
  char kind[8], folder[4000];
  while (fscanf(list, "%7s %3999s", kind, folder) == 2) {
    int state = state_of(done, folder);
    if (state == 2)
      continue;
    if (state == 1) {
      fprintf(results, "FAIL %s: the process ended\n", folder);
      fflush(results);
      continue;
    }
    fprintf(results, "begin %s\n", folder);
    fflush(results);
    alarm(60);
    int ends = compare(results, folder, !strcmp(kind, "run"));
    fflush(results);
    if (ends)
      return 3;
  }
  return 0;
}
