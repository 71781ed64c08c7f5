// Gives a partition its own copies of functions that it shares with other partitions. Declared in copies.rs.

#include "llvm-c/Core.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace llvm;

namespace {

// The suffix of copies of functions that other partitions own.
constexpr char copySuffix[] = ".fatlink.copy";

bool isCallee(const Use &use) {
  const auto *call = dyn_cast<CallBase>(use.getUser());
  return call && call->isCallee(&use);
}

} // namespace

// During optimization, a partition has its own copies of all shared functions whose bodies are in the module, so that calls of
// them can be inlined, also calls that only turn out to be direct then. ptxas, too, produces better code for a function that is
// local: around a call of a visible or external one it saves every register that such a function might use.
extern "C" void fatlink_begin_copies(LLVMModuleRef raw) {
  SmallVector<Function *, 16> shared;
  for (Function &function : *unwrap(raw))
    if (!function.isDeclaration() && !function.hasLocalLinkage() &&
        function.getCallingConv() != CallingConv::PTX_Kernel &&
        function.getCallingConv() != CallingConv::AMDGPU_KERNEL)
      shared.push_back(&function);
  for (Function *function : shared) {
    Function *copy = function;
    if (!function->hasAvailableExternallyLinkage()) {
      ValueToValueMapTy values;
      copy = CloneFunction(function, values);
      function->replaceUsesWithIf(copy, [](Use &) { return true; });
    }
    copy->setName(function->getName() + copySuffix);
    copy->setLinkage(GlobalValue::InternalLinkage);
    copy->setComdat(nullptr);
  }
}

// Everything that still takes the address of a copy refers to the owner's function again: addresses must compare equal in all
// partitions.
extern "C" void fatlink_end_copies(LLVMModuleRef raw) {
  Module &module = *unwrap(raw);
  SmallVector<Function *, 16> copies;
  for (Function &function : module)
    if (function.getName().ends_with(copySuffix) && any_of(function.uses(), [](const Use &use) { return !isCallee(use); }))
      copies.push_back(&function);
  for (Function *copy : copies) {
    StringRef name = copy->getName().drop_back(sizeof(copySuffix) - 1);
    Function *owner = module.getFunction(name);
    if (!owner) {
      owner = Function::Create(copy->getFunctionType(), GlobalValue::ExternalLinkage, copy->getAddressSpace(), name, &module);
      owner->setAttributes(copy->getAttributes());
      owner->setCallingConv(copy->getCallingConv());
    }
    copy->replaceUsesWithIf(owner, [](Use &use) { return !isCallee(use); });
  }
}
