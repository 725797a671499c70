// Matrix products on a processor that is newer than the BLAS.
#pragma once

#include <string_view>

namespace sullae {

/// OpenBLAS has kernels for each processor that it knows, and for one that it does not know takes
/// those of a Prescott, with SSE3, a half or less as fast: 0.3.21, Debian 12's, does so on Intel's
/// since Emerald Rapids. `taken` is the name of the kernels that it took (openblas_get_corename).
/// Gives the name for OPENBLAS_CORETYPE, or nothing where it need not be told.
std::string_view better_blas_kernels(std::string_view taken, bool has_avx2, bool has_avx512);

/// For the programs that this process starts or becomes: sets OPENBLAS_CORETYPE where OpenBLAS
/// would miss what the processor has, unless the user has set it. Asks the library that they would
/// load, once (3 ms); for a process that has no other threads yet.
void use_better_blas_kernels();

/// In a program that has loaded its libraries, when it is too late: a warning that says what to
/// set. Says nothing where OpenBLAS is not loaded, or knows the processor.
void warn_of_missed_blas_kernels();

}  // namespace sullae
