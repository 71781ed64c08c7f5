/* Uses every function of fatlink.h: link.c PROGRAM CUDA SAMPLES. Prints one line and exits with 0, or says what is wrong. */
#define _POSIX_C_SOURCE 200809L
#include "fatlink.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                  \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

static const char *program, *cuda, *samples;

static void in_samples(char *path, size_t size, const char *name) {
  CHECK(snprintf(path, size, "%s/%s", samples, name) < (int)size);
}

static fatlink_linker *new_linker(void) {
  fatlink_linker *linker = fatlink_linker_new(program);
  fatlink_linker_set_cuda(linker, cuda);
  fatlink_linker_set_variable(linker, "PATH", "/usr/bin:/bin");
  fatlink_linker_set_temporary_folder(linker, samples);
  fatlink_linker_set_ahead(linker, 1);
  return linker;
}

static unsigned char *contents(const char *name, size_t *size) {
  char path[4096];
  FILE *file;
  unsigned char *bytes = (unsigned char *)malloc(1 << 20);
  in_samples(path, sizeof path, name);
  file = fopen(path, "rb");
  CHECK(file && bytes);
  *size = fread(bytes, 1, 1 << 20, file);
  CHECK(*size > 0 && feof(file));
  fclose(file);
  return bytes;
}

struct seen {
  unsigned long jobs, messages;
  int cancel;
};

static int32_t observe(void *data, const fatlink_event *event) {
  struct seen *seen = (struct seen *)data;
  seen->jobs += event->kind == FATLINK_EVENT_KIND_JOBS && event->done == 1 && event->known == 1;
  if (event->kind == FATLINK_EVENT_KIND_MESSAGE) {
    CHECK(event->diagnostic && event->diagnostic->message);
    seen->messages++;
  }
  return seen->cancel;
}

/* A link of bytes and a file, with everything that a link can be given. */
static void link_samples(const fatlink_linker *linker) {
  size_t size, image_size, object_size;
  char path[4096];
  struct seen seen = {0, 0, 0};
  fatlink_diagnostic diagnostic;
  fatlink_link *link = fatlink_link_new();
  unsigned char *kernel = contents("kernel.o", &size);
  fatlink_link_set_base(link, samples);
  fatlink_link_add_unit(link, kernel, size, "my kernel.o");
  memset(kernel, 0, size); /* It was copied. */
  free(kernel);
  fatlink_link_add_file(link, "helper.o");
  fatlink_link_add_library_path(link, samples);
  fatlink_link_add_target(link, "sm_90");
  fatlink_link_set_ptx(link, "newest");
  in_samples(path, sizeof path, "cache");
  fatlink_link_set_cache(link, path);
  fatlink_link_add_option(link, "--device-compiler=-ffoo");
  fatlink_link_set_report(link);
  fatlink_link_set_observer(link, observe, &seen);
  fatlink_result *result = fatlink_run(linker, link);
  if (fatlink_result_diagnostic(result, 0, &diagnostic)) {
    CHECK(diagnostic.severity == FATLINK_SEVERITY_WARNING || (fprintf(stderr, "%s\n", diagnostic.message), 0));
    CHECK(strstr(diagnostic.message, "-ffoo"));
    CHECK(!diagnostic.member && diagnostic.offset == -1);
  }
  CHECK(fatlink_result_status(result) == FATLINK_STATUS_OK);
  CHECK(fatlink_result_diagnostic_count(result) == 1 && !fatlink_result_diagnostic(result, 1, &diagnostic));
  const unsigned char *image = fatlink_result_image(result, &image_size);
  CHECK(image_size > 64 && memcmp(image, "\x50\xed\x55\xba", 4) == 0);
  const unsigned char *object = fatlink_result_registration(result, &object_size);
  CHECK(object_size > image_size && memcmp(object, "\x7f" "ELF", 4) == 0);
  CHECK(strstr(fatlink_result_report(result), "sm_90"));
  /* What is in the cache is no job. */
  CHECK(seen.jobs <= 1 && seen.messages == 1);
  fatlink_result_free(result);
  fatlink_link_set_image_only(link);
  result = fatlink_run(linker, link);
  CHECK(fatlink_result_status(result) == FATLINK_STATUS_OK && !fatlink_result_registration(result, &size) && size == 0);
  fatlink_result_free(result);
  fatlink_link_free(link);
}

static void failures(const fatlink_linker *linker) {
  fatlink_diagnostic diagnostic;
  fatlink_link *link = fatlink_link_new();
  fatlink_link_set_base(link, samples);
  fatlink_link_add_file(link, "kernel.o");
  fatlink_result *result = fatlink_run(linker, link);
  CHECK(fatlink_result_status(result) == FATLINK_STATUS_FAILED && fatlink_result_diagnostic_count(result) == 1);
  CHECK(fatlink_result_diagnostic(result, 0, &diagnostic) && diagnostic.severity == FATLINK_SEVERITY_ERROR);
  CHECK(strstr(diagnostic.message, "helper(int)") && strcmp(diagnostic.file, "kernel.o") == 0);
  CHECK(!fatlink_result_image(result, NULL) && !fatlink_result_report(result));
  fatlink_result_free(result);
  fatlink_link_add_whole_archive(link, "no-such-archive.a");
  fatlink_link_add_library(link, "nothing");
  result = fatlink_run(linker, link);
  CHECK(fatlink_result_status(result) == FATLINK_STATUS_FAILED);
  CHECK(fatlink_result_diagnostic(result, 0, &diagnostic) && strstr(diagnostic.message, "no-such-archive.a"));
  fatlink_result_free(result);

  fatlink_linker *missing = fatlink_linker_new("/no/such/program");
  result = fatlink_run(missing, link);
  CHECK(fatlink_result_status(result) == FATLINK_STATUS_NO_PROGRAM && fatlink_result_diagnostic_count(result) == 1);
  fatlink_result_free(result);
  fatlink_linker_free(missing);
  fatlink_link_free(link);
}

/* Null pointers are no crash anywhere. */
static void null_pointers(const fatlink_linker *linker) {
  fatlink_link *link = fatlink_link_new();
  fatlink_link_add_unit(link, NULL, 100, NULL);
  fatlink_link_add_file(link, NULL);
  fatlink_link_add_target(link, NULL);
  fatlink_link_set_observer(link, NULL, NULL);
  fatlink_link_set_cancellation(link, NULL);
  fatlink_result *result = fatlink_run(linker, link);
  CHECK(fatlink_result_status(result) == FATLINK_STATUS_FAILED && fatlink_result_diagnostic_count(result) > 0);
  CHECK(!fatlink_result_diagnostic(result, 0, NULL));
  fatlink_result_free(result);
  result = fatlink_run(NULL, link);
  CHECK(fatlink_result_status(result) == FATLINK_STATUS_FAILED);
  fatlink_result_free(result);
  fatlink_link_free(link);
  fatlink_link_add_target(NULL, "sm_90");
  fatlink_linker_set_ahead(NULL, 1);
  fatlink_cancellation_cancel(NULL);
  CHECK(fatlink_result_status(NULL) == FATLINK_STATUS_INTERNAL && fatlink_result_diagnostic_count(NULL) == 0);
  fatlink_result_free(NULL);
  fatlink_link_free(NULL);
  fatlink_linker_free(NULL);
  fatlink_cancellation_free(NULL);
}

static void cancelled(const fatlink_linker *linker) {
  struct seen seen = {0, 0, 1};
  fatlink_link *link = fatlink_link_new();
  fatlink_link_set_base(link, samples);
  fatlink_link_add_file(link, "kernel.o");
  fatlink_link_add_file(link, "helper.o");
  fatlink_link_set_observer(link, observe, &seen);
  fatlink_result *result = fatlink_run(linker, link);
  CHECK(fatlink_result_status(result) == FATLINK_STATUS_CANCELLED);
  fatlink_result_free(result);
  fatlink_cancellation *cancellation = fatlink_cancellation_new();
  fatlink_link_set_cancellation(link, cancellation);
  fatlink_cancellation_cancel(cancellation);
  fatlink_cancellation_free(cancellation);
  result = fatlink_run(linker, link);
  CHECK(fatlink_result_status(result) == FATLINK_STATUS_CANCELLED);
  fatlink_result_free(result);
  fatlink_link_free(link);
}

static void *in_thread(void *linker) {
  link_samples((const fatlink_linker *)linker);
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t threads[4];
  size_t i;
  CHECK(argc == 4 && strlen(fatlink_version()) >= 5);
  program = argv[1], cuda = argv[2], samples = argv[3];
  fatlink_linker *linker = new_linker();
  link_samples(linker);
  failures(linker);
  null_pointers(linker);
  cancelled(linker);
  for (i = 0; i < 4; i++)
    CHECK(pthread_create(&threads[i], NULL, in_thread, linker) == 0);
  for (i = 0; i < 4; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
  fatlink_linker_free(linker);
  puts("everything is as it should be");
  return 0;
}
