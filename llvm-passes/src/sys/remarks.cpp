// Records of optimization remarks, which LLVM-C does not offer. Declared in remarks.rs.

#include "llvm-c/Core.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LLVMRemarkStreamer.h"
#include "llvm/Remarks/RemarkStreamer.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <string>

using namespace llvm;

namespace {

// The context's streamer writes to `stream`, so this must outlive the context.
struct Records {
  std::string text;
  raw_string_ostream stream{text};
};

} // namespace

// Prints why a regular expression is none, as LLVM's command line prints its errors.
extern "C" bool fatlink_is_remark_filter(const char *passes) {
  std::string reason;
  // An empty filter matches every pass.
  if (!*passes || Regex(passes).isValid(reason))
    return true;
  errs() << "-pass-remarks-filter=" << passes << ": " << reason << "\n";
  return false;
}

// Records the remarks of the passes that match `passes`, a regular expression, as YAML. Returns null if that is none.
extern "C" Records *fatlink_record_remarks(LLVMContextRef context, const char *passes, bool hotness, uint64_t threshold) {
  auto *records = new Records;
  if (Error error = setupLLVMOptimizationRemarks(*unwrap(context), records->stream, passes, "yaml", hotness, threshold)) {
    consumeError(std::move(error));
    delete records;
    return nullptr;
  }
  return records;
}

// Returns the records so far for LLVMDisposeMessage, and forgets them.
extern "C" char *fatlink_take_remarks(Records *records) {
  records->stream.flush();
  char *text = LLVMCreateMessage(records->text.c_str());
  records->text.clear();
  return text;
}

extern "C" void fatlink_drop_remarks(Records *records) { delete records; }
