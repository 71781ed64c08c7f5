// What code generation for AMD GPUs needs beside LLVM-C. Declared in amdgpu.rs.

#include "llvm-c/Core.h"
#include "llvm-c/TargetMachine.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

#include <memory>
#include <string>

using namespace llvm;

// The static constructors of the code generator, which build.rs moved out of .init_array.
using Constructor = void (*)();
extern "C" Constructor __start_fatlink_amdgpu_init[], __stop_fatlink_amdgpu_init[];

extern "C" void fatlink_construct_amdgpu() {
  for (Constructor *each = __start_fatlink_amdgpu_init; each != __stop_fatlink_amdgpu_init; ++each)
    (*each)();
}

// Passes the name of every declared function that the module calls directly to `visit`.
extern "C" void fatlink_called_declarations(LLVMModuleRef raw, void *visitor,
                                            void (*visit)(void *, const char *, size_t)) {
  for (const Function &function : *unwrap(raw)) {
    const auto isCall = [](const Use &use) {
      const auto *call = dyn_cast<CallBase>(use.getUser());
      return call && call->isCallee(&use);
    };
    if (function.isDeclaration() && !function.isIntrinsic() && any_of(function.uses(), isCall))
      visit(visitor, function.getName().data(), function.getName().size());
  }
}

// For an unknown processor, LLVM prints a warning and emits code for another one.
extern "C" bool fatlink_is_amd_processor(const char *name, size_t length) {
  Triple triple("amdgcn-amd-amdhsa");
  std::string error;
  const Target *target = TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return false;
  std::unique_ptr<MCSubtargetInfo> info(target->createMCSubtargetInfo(triple, "", ""));
  return info && info->isCPUStringValid(StringRef(name, length));
}

// ld.lld's own LTO emits objects in this form.
extern "C" void fatlink_use_sections(LLVMTargetMachineRef raw) {
  auto *machine = reinterpret_cast<TargetMachine *>(raw);
  machine->Options.FunctionSections = true;
  machine->Options.DataSections = true;
}
