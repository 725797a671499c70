// Stands in for an OpenBLAS that does not know its processor: blas_kernels_test puts it in front of
// the real one, which may know the processor that the test runs on.
extern "C" const char* openblas_get_corename() { return "Prescott"; }
