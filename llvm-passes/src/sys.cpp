// What LLVM-C has no call for.

#include "llvm-c/Core.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Instruction.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>

// The destructors of LLVM's streams end the process with an error if anything could not be written.
extern "C" void fatlink_forget_stream_errors() {
  llvm::outs().clear_error();
  llvm::errs().clear_error();
}

// A reader that has read enough and closed the pipe is no error.
static void forget_closed_pipe() {
  llvm::outs().flush();
  if (llvm::outs().error() == std::errc::broken_pipe)
    llvm::outs().clear_error();
}

// LLVMParseCommandLineOptions sends LLVM's complaints to nowhere and does not say whether there were any.
extern "C" bool fatlink_parse_llvm_options(int count, const char *const *words) {
  // --help prints and ends the process. What is registered after the stream was made runs before its destructor.
  llvm::outs();
  std::atexit(forget_closed_pipe);
  return llvm::cl::ParseCommandLineOptions(count, words, "", &llvm::errs());
}

static void (*report_out_of_memory)();

// For operator new and for what LLVM gets from malloc. The report does not return.
extern "C" void fatlink_on_out_of_memory(void (*report)()) {
  report_out_of_memory = report;
  std::set_new_handler(report);
  llvm::remove_bad_alloc_error_handler();
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { report_out_of_memory(); });
}

// What LLVM-C does not tell of a diagnostic. Texts are freed by LLVMDisposeMessage; null: there is none.
struct FatlinkPlace {
  char *function;
  char *place;
  // How the description begins that LLVM-C gives; empty where nothing of it is said elsewhere.
  char *prefix;
};

static char *copy_of(llvm::StringRef text) { return strdup(text.str().c_str()); }

// Where the code came from; the function's first line where nothing more is known.
static char *place_in(const llvm::DiagnosticInfoWithLocationBase &info) {
  if (info.isLocationAvailable())
    return copy_of(info.getLocationStr());
  const llvm::DISubprogram *function = info.getFunction().getSubprogram();
  if (!function)
    return nullptr;
  return copy_of((function->getFilename() + ":" + llvm::Twine(function->getLine())).str());
}

static const llvm::DiagnosticInfoWithLocationBase *with_location(const llvm::DiagnosticInfo *info) {
  switch (info->getKind()) {
  case llvm::DK_GenericWithLoc:
  case llvm::DK_RegAllocFailure:
  case llvm::DK_ResourceLimit:
  case llvm::DK_StackSize:
  case llvm::DK_LegalizationFailure:
  case llvm::DK_OptimizationRemark:
  case llvm::DK_OptimizationRemarkMissed:
  case llvm::DK_OptimizationRemarkAnalysis:
  case llvm::DK_OptimizationRemarkAnalysisFPCommute:
  case llvm::DK_OptimizationRemarkAnalysisAliasing:
  case llvm::DK_OptimizationFailure:
  case llvm::DK_MachineOptimizationRemark:
  case llvm::DK_MachineOptimizationRemarkMissed:
  case llvm::DK_MachineOptimizationRemarkAnalysis:
  case llvm::DK_Unsupported:
  case llvm::DK_MisExpect:
    return static_cast<const llvm::DiagnosticInfoWithLocationBase *>(info);
  default:
    return nullptr;
  }
}

extern "C" void fatlink_place_of(void *raw, FatlinkPlace *result) {
  const auto *info = static_cast<const llvm::DiagnosticInfo *>(raw);
  *result = {nullptr, nullptr, nullptr};
  if (const auto *located = with_location(info)) {
    result->function = copy_of(located->getFunction().getName());
    result->place = place_in(*located);
    result->prefix = copy_of(located->getLocationStr() + ": ");
  } else if (info->getKind() == llvm::DK_InlineAsm) {
    const llvm::Instruction *call = static_cast<const llvm::DiagnosticInfoInlineAsm *>(info)->getInstruction();
    if (call && call->getFunction())
      result->function = copy_of(call->getFunction()->getName());
  }
}

// LLVM-C can open a module without its function bodies, but not load them later. Returns a message for LLVMDisposeMessage, or
// null on success.
extern "C" char *fatlink_load_bodies(LLVMModuleRef module) {
  llvm::Error error = llvm::unwrap(module)->materializeAll();
  return error ? LLVMCreateMessage(llvm::toString(std::move(error)).c_str()) : nullptr;
}

// 0: none, 1: lines alone, 2: full.
extern "C" int fatlink_debug_information(LLVMModuleRef module) {
  int found = 0;
  for (llvm::DICompileUnit *unit : llvm::unwrap(module)->debug_compile_units()) {
    if (unit->getEmissionKind() == llvm::DICompileUnit::FullDebug)
      return 2;
    found = 1;
  }
  return found;
}

// LLVMAddModuleFlag can only add a second flag of that name.
extern "C" void fatlink_set_module_flag(LLVMModuleRef module, const char *name, size_t length, uint32_t value) {
  llvm::Module *found = llvm::unwrap(module);
  llvm::Type *type = llvm::Type::getInt32Ty(found->getContext());
  llvm::Metadata *number = llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(type, value));
  found->setModuleFlag(llvm::Module::Override, llvm::StringRef(name, length), number);
}
