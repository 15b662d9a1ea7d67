// openblas.h -- the used part of OpenBLAS and its LAPACK; the library is opened at first use
//
// The library is not linked: a program without large products and factorizations never opens it. It
// is searched for in MTORCH_BLAS, at the path found by the build, and as libopenblas.so.0; a copy that
// the process has already loaded is used. It must be the OpenMP build.
#pragma once
#include <cstddef>

namespace mt::openblas {

/// The routines that are used, for numbers of type T. cmake/package.cmake reads the names from these lines. Fortran
/// takes addresses; the lengths of the texts follow the arguments.
#define MT_OPENBLAS(X)                                                                             \
  X(getrf, (Size m, Size n, T*, Size, int* pivots, int* info))                                     \
  X(getri, (Size n, T*, Size, Size pivots, T*, Size, int* info))                                   \
  X(potrf, (Text, Size n, T*, Size, int* info, size_t))                                            \
  X(trsm, (Text, Text, Text, Text, Size m, Size n, const T*, const T*, Size, T*, Size, size_t,     \
           size_t, size_t, size_t))                                                                \
  X(laswp, (Size n, T*, Size, Size, Size, Size pivots, Size))                                      \
  X(syrk,                                                                                          \
    (Text, Text, Size n, Size k, const T*, const T*, Size, const T*, T*, Size, size_t, size_t))    \
  X(geqrf, (Size m, Size n, T*, Size, T*, T*, Size, int* info))                                    \
  X(orgqr, (Size m, Size n, Size k, T*, Size, const T* tau, T*, Size, int* info))                  \
  X(gesdd,                                                                                         \
    (Text, Size m, Size n, T*, Size, T*, T*, Size, T*, Size, T*, Size, int*, int* info, size_t))   \
  X(gesvd, (Text, Text, Size m, Size n, T*, Size, T*, T*, Size, T*, Size, T*, Size, int* info,     \
            size_t, size_t))                                                                       \
  X(syevd, (Text, Text, Size n, T*, Size, T*, T*, Size, int*, Size, int* info, size_t, size_t))    \
  X(geqrt3, (Size m, Size n, T*, Size, T*, Size, int* info))                                       \
  X(larfg, (Size n, T*, T*, Size, T*))                                                             \
  X(larft, (Text, Text, Size n, Size k, const T*, Size, const T* tau, T* t, Size, size_t, size_t)) \
  X(larfb, (Text, Text, Text, Text, Size m, Size n, Size k, const T*, Size, const T* t, Size, T*,  \
            Size, T*, Size, size_t, size_t, size_t, size_t))                                       \
  X(gemv,                                                                                          \
    (Text, Size m, Size n, const T*, const T*, Size, const T*, Size, const T*, T*, Size, size_t))  \
  X(symv, (Text, Size n, const T*, const T*, Size, const T*, Size, const T*, T*, Size, size_t))    \
  X(sytrd, (Text, Size n, T*, Size, T*, T*, T*, T*, Size, int* info, size_t))                      \
  X(sterf, (Size n, T*, T*, int* info))                                                            \
  X(steqr, (Text, Size n, T*, T*, T*, Size, T*, int* info, size_t))                                \
  X(laed2, (int* k, Size n, Size n1, T* d, T*, Size, int* order, T* rho, T* z, T*, T*, T*, int*,   \
            int*, int*, int*, int* info))                                                          \
  X(laed4, (Size n, Size i, const T*, const T*, T*, const T* rho, T*, int* info))                  \
  X(lamrg, (Size n1, Size n2, const T*, Size, Size, int* order))                                   \
  X(gebrd, (Size m, Size n, T*, Size, T*, T*, T*, T*, T*, Size, int* info))                        \
  X(bdsdc, (Text, Text, Size n, T*, T*, T*, Size, T*, Size, T*, int*, T*, int*, int* info, size_t, \
            size_t))                                                                               \
  X(geev, (Text, Text, Size n, T*, Size, T*, T*, T*, Size, T*, Size, T*, Size, int* info, size_t,  \
           size_t))                                                                                \
  X(gels, (Text, Size m, Size n, Size, T*, Size, T*, Size, T*, Size, int* info, size_t))           \
  X(gelsy, (Size m, Size n, Size, T*, Size, T*, Size, int*, const T* rcond, int* rank, T*, Size,   \
            int* info))                                                                            \
  X(gelss, (Size m, Size n, Size, T*, Size, T*, Size, T*, const T* rcond, int* rank, T*, Size,     \
            int* info))                                                                            \
  X(gelsd, (Size m, Size n, Size, T*, Size, T*, Size, T*, const T* rcond, int* rank, T*, Size,     \
            int*, int* info))

template <class T> struct Routines {
  using Size = const int*;
  using Text = const char*;
  void (*gemm)(int order, int ta, int tb, int m, int n, int k, T alpha, const T* a, int lda,
               const T* b, int ldb, T beta, T* c, int ldc);  // of CBLAS
#define MT_MEMBER(name, arguments) void(*name) arguments;
  MT_OPENBLAS(MT_MEMBER)
#undef MT_MEMBER
};

/// The functions, and what the doctor prints about them.
struct Library {
  int (*get_parallel)();
  char* (*get_config)(), *(*get_corename)();
  Routines<float> single;
  Routines<double> wide;
  const char* path;  // the file
  const char* note;  // how its kernels were selected, if not by best_core(); else ""
  /// Those for T.
  template <class T> const Routines<T>& of() const {
    if constexpr (sizeof(T) == 4) return single;
    else return wide;
  }
};

/// The library, opened by the first call; null if there is no suitable one: then why() is the
/// reason. It is called before threads start: the first call changes the environment for a moment.
const Library* open();
/// The reason with a cure, in one sentence, once open() has returned null.
const char* why();

/// The OPENBLAS_CORETYPE for the features of this processor; "" without AVX.
const char* best_core();
/// Whether this kernel family uses all the instructions that best_core's family uses.
bool suits(const char* core);

}  // namespace mt::openblas
