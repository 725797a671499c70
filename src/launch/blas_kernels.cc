#include "launch/blas_kernels.h"

#include <dlfcn.h>

#include <cstdlib>

#include "base/log.h"

namespace sullae {
namespace {

constexpr auto kVariable = "OPENBLAS_CORETYPE";

#ifdef __x86_64__
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#else
bool has_avx2() { return false; }
bool has_avx512() { return false; }
#endif

// `mode` says whether to load OpenBLAS or only to look whether it is loaded.
std::string_view missed_kernels(int mode) {
  if (!has_avx2()) return {};
  void* const library = ::dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_LOCAL | mode);
  if (library == nullptr) return {};  // another BLAS
  std::string_view better;
  if (const auto name =
          reinterpret_cast<const char* (*)()>(::dlsym(library, "openblas_get_corename")))
    better = better_blas_kernels(name(), has_avx2(), has_avx512());
  ::dlclose(library);
  return better;
}

// OpenBLAS starts a thread a processor as soon as it is loaded, unless it is told not to.
std::string_view missed_kernels_of_programs() {
  constexpr auto kThreads = "OPENBLAS_NUM_THREADS";
  const bool set = ::getenv(kThreads) != nullptr;
  if (!set) ::setenv(kThreads, "1", /*overwrite=*/0);
  const auto better = missed_kernels(0);
  if (!set) ::unsetenv(kThreads);
  return better;
}

}  // namespace

std::string_view better_blas_kernels(std::string_view taken, bool has_avx2, bool has_avx512) {
  if (taken != "Prescott" || !has_avx2) return {};
  return has_avx512 ? "SkylakeX" : "Haswell";
}

void use_better_blas_kernels() {
  if (::getenv(kVariable) != nullptr) return;
  if (const auto better = missed_kernels_of_programs(); !better.empty())
    ::setenv(kVariable, better.data(), /*overwrite=*/0);
}

void warn_of_missed_blas_kernels() {
  if (::getenv(kVariable) != nullptr) return;
  if (const auto better = missed_kernels(RTLD_NOLOAD); !better.empty())
    log::warning(
        "OpenBLAS does not know this processor and multiplies with SSE3 alone, at half speed or "
        "less: "
        "start the program under sullae run, or with {}={}",
        kVariable, better);
}

}  // namespace sullae
