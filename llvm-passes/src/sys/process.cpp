// What concerns the whole process: LLVM's own command line, memory and streams. Declared in process.rs.

#include "llvm/ADT/Statistic.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Timer.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <system_error>

// The destructors of LLVM's streams end the process with an error if anything could not be written.
extern "C" void fatlink_forget_stream_errors() {
  llvm::outs().clear_error();
  llvm::errs().clear_error();
}

// A reader that closed the pipe because it has read enough is not an error.
static void forgetClosedPipe() {
  llvm::outs().flush();
  if (llvm::outs().error() == std::errc::broken_pipe)
    llvm::outs().clear_error();
}

// LLVMParseCommandLineOptions discards LLVM's messages and does not return whether there were any.
extern "C" bool fatlink_parse_llvm_options(int count, const char *const *words) {
  // --help prints and ends the process. A function that is registered after the stream was created runs before the stream's
  // destructor.
  llvm::outs();
  std::atexit(forgetClosedPipe);
  return llvm::cl::ParseCommandLineOptions(count, words, "", &llvm::errs());
}

// LLVM 23.1.1 compiles an atomic addition of floats to a loop, as the instruction flushes denormal numbers. 23.1.4 has this option on, and
// releases before 23 use the instruction. The user's own options may still turn it off.
extern "C" void fatlink_allow_flushing_atomics() {
#if LLVM_VERSION_MAJOR >= 23
  auto &options = llvm::cl::getRegisteredOptions();
  auto found = options.find("nvptx-allow-ftz-atomics");
  if (found != options.end())
    static_cast<llvm::cl::opt<bool> *>(found->second)->setInitialValue(true);
#endif
}

static void (*reportOutOfMemory)();

// Covers operator new and what LLVM allocates with malloc. The report does not return.
extern "C" void fatlink_on_out_of_memory(void (*report)()) {
  reportOutOfMemory = report;
  std::set_new_handler(report);
  llvm::remove_bad_alloc_error_handler();
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { reportOutOfMemory(); });
}

// The text of all timers of -time-passes, which are then cleared: LLVM would print those that are left when the process ends.
extern "C" char *fatlink_take_time_report() {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::TimerGroup::printAll(stream);
  llvm::TimerGroup::clearAll();
  return strdup(text.c_str());
}

// Prints a report where LLVM's own tools print it: on standard error, or to the file of -info-output-file=.
extern "C" void fatlink_print_report(const char *text) {
  *llvm::CreateInfoOutputFile() << text;
}
