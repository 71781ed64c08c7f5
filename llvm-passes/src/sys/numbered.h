// The order of globals by which the reference graph and the mover identify them.

#pragma once

#include "llvm/IR/Module.h"

#include <vector>

namespace fatlink {

// Functions, then variables, in the module's order. A worker process finds a global again by its index in this list. Intrinsics come last:
// when LLVM loads all bodies, it removes those that it replaces, which are still there in a module that is open for extraction.
inline std::vector<llvm::GlobalValue *> numberedGlobals(llvm::Module &module) {
  std::vector<llvm::GlobalValue *> all;
  std::vector<llvm::GlobalValue *> intrinsics;
  for (llvm::Function &function : module)
    (function.isIntrinsic() ? intrinsics : all).push_back(&function);
  for (llvm::GlobalVariable &variable : module.globals())
    all.push_back(&variable);
  all.insert(all.end(), intrinsics.begin(), intrinsics.end());
  return all;
}

} // namespace fatlink
