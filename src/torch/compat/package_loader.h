// Packages that AOTInductor has compiled: libtorch loads them since 2.8 as a server wants it,
// several threads at a time.
#pragma once

#include <torch/version.h>

#define SULLAE_HAS_PACKAGES \
  (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 8))

#if SULLAE_HAS_PACKAGES
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#endif
