/* fatlink: links the device code of CUDA, HIP and OpenMP programs.
 *
 * Each link runs in a process of the program fatlink. The functions print nothing, read neither the environment nor the current folder, and
 * install no signal handler.
 *
 * Ownership: what a function named _new or fatlink_run returns is freed with the function named _free of its type; a null pointer may be
 * freed. Bytes and texts that are passed in are copied before the function returns. Pointers into a result are valid until it is freed.
 *
 * Threads: a linker may run links of several threads at the same time, and several threads may run one link. A handle that is being changed
 * (by a function with a handle that is not const) or freed may be used by no other thread meanwhile. A cancellation may be used by any thread
 * at any time before it is freed.
 *
 * Texts are UTF-8 and end with a zero. Paths are bytes as the system takes them; a null pointer where a text is required, or a relative path
 * in a link without a base folder, makes the run fail with a diagnostic.
 *
 * Written by cbindgen from src/. */

#ifndef FATLINK_H
#define FATLINK_H

#include <stddef.h>
#include <stdint.h>

// What an event is.
typedef enum fatlink_event_kind {
  // Nothing has happened for 50 ms.
  FATLINK_EVENT_KIND_WAITING = 0,
  // The numbers of jobs have changed.
  FATLINK_EVENT_KIND_JOBS = 1,
  // There is a message. The result has it, too.
  FATLINK_EVENT_KIND_MESSAGE = 2,
} fatlink_event_kind;

// How bad a message is.
typedef enum fatlink_severity {
  // What an option requests to be shown.
  FATLINK_SEVERITY_NOTE = 0,
  // The link goes on.
  FATLINK_SEVERITY_WARNING = 1,
  // The link fails.
  FATLINK_SEVERITY_ERROR = 2,
} fatlink_severity;

// How a link has ended.
typedef enum fatlink_status {
  // There is an image.
  FATLINK_STATUS_OK = 0,
  // The link failed; the diagnostics say why.
  FATLINK_STATUS_FAILED = 1,
  // The caller cancelled the link.
  FATLINK_STATUS_CANCELLED = 2,
  // The program fatlink is missing, cannot be started, or is of another release; the diagnostics say which.
  FATLINK_STATUS_NO_PROGRAM = 3,
  // The library failed; this is a defect of it.
  FATLINK_STATUS_INTERNAL = 4,
} fatlink_status;

// Cancels links from any thread.
typedef struct fatlink_cancellation fatlink_cancellation;

// The inputs of a link, and what is made of them.
typedef struct fatlink_link fatlink_link;

// The program fatlink, and the environment that it gets. It runs links.
typedef struct fatlink_linker fatlink_linker;

// What a link has made.
typedef struct fatlink_result fatlink_result;

// A message of a link. The texts belong to the result, or to the event, that it comes from.
typedef struct fatlink_diagnostic {
  // How bad it is.
  enum fatlink_severity severity;
  // The whole text, of one line or more.
  const char *message;
  // The input that it is about, or null.
  const char *file;
  // The member of the archive that it is about, or null.
  const char *member;
  // The offset in the input in bytes, or -1.
  int64_t offset;
} fatlink_diagnostic;

// What a link reports while it runs. It is valid until the observer returns.
typedef struct fatlink_event {
  // What it is.
  enum fatlink_event_kind kind;
  // How many jobs have ended.
  uint64_t done;
  // How many jobs the link knows of. A link may learn of more as it runs.
  uint64_t known;
  // The message, or null.
  const struct fatlink_diagnostic *diagnostic;
} fatlink_event;

// Gets the events of a link in the thread that runs it, with the data that the link was given. Returns 0, or another number to cancel
// the link.
typedef int32_t (*fatlink_observer)(void *data, const struct fatlink_event *event);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of the library, such as "0.1.0". The program fatlink must be of the same version.
const char *fatlink_version(void);

// Returns a cancellation that cancels nothing yet, or null if the process has too many open files.
struct fatlink_cancellation *fatlink_cancellation_new(void);

// Cancels the links that were given this cancellation, also those that are run later. Returns at once; each `fatlink_run` returns
// within 0.2 seconds.
//
// Requirements:
// `cancellation` is null or was not freed.
void fatlink_cancellation_cancel(const struct fatlink_cancellation *cancellation);

// Frees a cancellation. Links that were given it keep what they need of it.
//
// Requirements:
// `cancellation` is null or was not freed.
void fatlink_cancellation_free(struct fatlink_cancellation *cancellation);

// Returns a link without inputs.
struct fatlink_link *fatlink_link_new(void);

// Frees a link. Its results stay.
//
// Requirements:
// `link` is null or was not freed.
void fatlink_link_free(struct fatlink_link *link);

// Adds an input of bytes, which are copied: a host object with device code, an archive, an offload binary, or bare device code (LLVM
// bitcode, PTX, a cubin, a fatbin). Diagnostics call it by `name`.
//
// Requirements:
// `link` is null or was not freed; `data` is null or points to `size` bytes; `name` is null or ends with a zero.
void fatlink_link_add_unit(struct fatlink_link *link,
                           const uint8_t *data,
                           size_t size,
                           const char *name);

// Adds a file with what `fatlink_link_add_unit` takes. Of an archive, the members are linked that other inputs need.
//
// Requirements:
// `link` is null or was not freed; `file` is null or ends with a zero.
void fatlink_link_add_file(struct fatlink_link *link, const char *file);

// Adds an archive of which all members are linked.
//
// Requirements:
// `link` is null or was not freed; `file` is null or ends with a zero.
void fatlink_link_add_whole_archive(struct fatlink_link *link, const char *file);

// Adds a library, such as "foo" for libfoo.a in one of the folders of `fatlink_link_add_library_path`.
//
// Requirements:
// `link` is null or was not freed; `name` is null or ends with a zero.
void fatlink_link_add_library(struct fatlink_link *link, const char *name);

// Adds a folder in which libraries are searched.
//
// Requirements:
// `link` is null or was not freed; `folder` is null or ends with a zero.
void fatlink_link_add_library_path(struct fatlink_link *link, const char *folder);

// Adds a target that machine code is made for, such as "sm_90". Without any, it is made for those that the units were compiled for.
//
// Requirements:
// `link` is null or was not freed; `target` is null or ends with a zero.
void fatlink_link_add_target(struct fatlink_link *link,
                             const char *target);

// Says which PTX the image has: "objects" (what the units request), "none", "newest", "oldest", "all", or targets such as
// "sm_80,sm_90".
//
// Requirements:
// `link` is null or was not freed; `policy` is null or ends with a zero.
void fatlink_link_set_ptx(struct fatlink_link *link,
                          const char *policy);

// Keeps results of device links in a folder, and takes them from there.
//
// Requirements:
// `link` is null or was not freed; `folder` is null or ends with a zero.
void fatlink_link_set_cache(struct fatlink_link *link, const char *folder);

// Names the folder from which relative paths count. Without it they are errors.
//
// Requirements:
// `link` is null or was not freed; `folder` is null or ends with a zero.
void fatlink_link_set_base(struct fatlink_link *link, const char *folder);

// Adds an option of the program fatlink, such as "--offload-compress=size".
//
// Requirements:
// `link` is null or was not freed; `option` is null or ends with a zero.
void fatlink_link_add_option(struct fatlink_link *link, const char *option);

// Makes the image alone, without a registration object.
//
// Requirements:
// `link` is null or was not freed.
void fatlink_link_set_image_only(struct fatlink_link *link);

// Makes the report on the image, too.
//
// Requirements:
// `link` is null or was not freed.
void fatlink_link_set_report(struct fatlink_link *link);

// Names a function that gets the events of the link, with `data`, in each thread that runs the link. Both must be valid as long as the
// link is run. The function may not throw exceptions of C++.
//
// Requirements:
// `link` is null or was not freed; `observer` may be called as above.
void fatlink_link_set_observer(struct fatlink_link *link,
                               fatlink_observer observer,
                               void *data);

// Names what cancels the link.
//
// Requirements:
// `link` and `cancellation` are null or were not freed.
void fatlink_link_set_cancellation(struct fatlink_link *link, const struct fatlink_cancellation *cancellation);

// Returns a linker that runs this program, or with a null pointer the one that is installed with the library. A program that is missing is
// an error of the links that it should run.
//
// Requirements:
// `program` is null or ends with a zero.
struct fatlink_linker *fatlink_linker_new(const char *program);

// Names the CUDA toolkit whose tools links use.
//
// Requirements:
// `linker` is null or was not freed; `root` is null or ends with a zero.
void fatlink_linker_set_cuda(struct fatlink_linker *linker, const char *root);

// Sets a variable of the program's environment, which is empty otherwise.
//
// Requirements:
// `linker` is null or was not freed; the texts are null or end with a zero.
void fatlink_linker_set_variable(struct fatlink_linker *linker, const char *name, const char *value);

// Names the folder for temporary files; without it, /tmp.
//
// Requirements:
// `linker` is null or was not freed; `folder` is null or ends with a zero.
void fatlink_linker_set_temporary_folder(struct fatlink_linker *linker, const char *folder);

// Keeps this many processes of the program ready, so that links need not wait for their start.
//
// Requirements:
// `linker` is null or was not freed.
void fatlink_linker_set_ahead(struct fatlink_linker *linker, size_t processes);

// Frees a linker, and ends the processes that it keeps ready.
//
// Requirements:
// `linker` is null or was not freed.
void fatlink_linker_free(struct fatlink_linker *linker);

// Runs a link, and returns what it has made, or its diagnostics if it failed. Never returns null. All that the link has started has ended
// then, and its temporary files are gone.
//
// Requirements:
// `linker` and `link` are null or were not freed.
struct fatlink_result *fatlink_run(const struct fatlink_linker *linker,
                                   const struct fatlink_link *link);

// Returns how the link has ended.
//
// Requirements:
// `result` is null or was not freed.
enum fatlink_status fatlink_result_status(const struct fatlink_result *result);

// Returns the image, with its size in bytes in `size`: a fatbin for CUDA, a bundle for HIP. Null if the link failed.
//
// Requirements:
// `result` is null or was not freed; `size` is null or may be written to.
const uint8_t *fatlink_result_image(const struct fatlink_result *result, size_t *size);

// Returns the host object that registers the image, with its size in bytes in `size`. Null if the link failed or made the image alone.
//
// Requirements:
// `result` is null or was not freed; `size` is null or may be written to.
const uint8_t *fatlink_result_registration(const struct fatlink_result *result,
                                           size_t *size);

// Returns the report as JSON, or null if the link did not make one.
//
// Requirements:
// `result` is null or was not freed.
const char *fatlink_result_report(const struct fatlink_result *result);

// Returns the number of diagnostics: errors of a failed link, warnings and notes of any.
//
// Requirements:
// `result` is null or was not freed.
size_t fatlink_result_diagnostic_count(const struct fatlink_result *result);

// Writes the diagnostic of this index to `diagnostic`. Returns 1, or 0 if there is none of this index.
//
// Requirements:
// `result` is null or was not freed; `diagnostic` is null or may be written to.
int32_t fatlink_result_diagnostic(const struct fatlink_result *result,
                                  size_t index,
                                  struct fatlink_diagnostic *diagnostic);

// Frees a result, with all that points into it.
//
// Requirements:
// `result` is null or was not freed.
void fatlink_result_free(struct fatlink_result *result);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FATLINK_H */
