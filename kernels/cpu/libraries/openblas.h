// openblas.h -- the used part of OpenBLAS and its LAPACK; the library is opened at first use
//
// The library is not linked: a program without large products and factorizations never opens it. It
// is searched for in MTORCH_BLAS, at the path found by the build, and as libopenblas.so.0; a copy that
// the process has already loaded is used. It must be the OpenMP build.
#pragma once
#include <cstddef>

/// Every function that is used. cmake/package.cmake reads the names from these lines.
// clang-format off
#define MT_OPENBLAS(X)                                                     \
  X(openblas_get_parallel) X(openblas_get_config) X(openblas_get_corename) \
  X(cblas_sgemm) X(cblas_dgemm)                                            \
  X(sgetrf_) X(sgetri_) X(spotrf_) X(strsm_) X(sgeqrf_)                    \
  X(sorgqr_) X(sgesdd_) X(sgesvd_) X(ssyevd_) X(sgeev_)                    \
  X(sgeqrt3_) X(slarfg_) X(slarft_) X(slarfb_) X(sgemv_) X(ssymv_)    \
  X(ssytrd_) X(sstedc_) X(sgebrd_) X(sbdsdc_)                           \
  X(sgels_) X(sgelsy_) X(sgelss_) X(sgelsd_) X(slaswp_) X(ssyrk_)          \
  X(dgetrf_) X(dgetri_) X(dpotrf_) X(dtrsm_) X(dgeqrf_)                    \
  X(dorgqr_) X(dgesdd_) X(dgesvd_) X(dsyevd_) X(dgeev_)                    \
  X(dgeqrt3_) X(dlarfg_) X(dlarft_) X(dlarfb_) X(dgemv_) X(dsymv_)    \
  X(dsytrd_) X(dstedc_) X(dgebrd_) X(dbdsdc_)                           \
  X(dgels_) X(dgelsy_) X(dgelss_) X(dgelsd_) X(dlaswp_) X(dsyrk_)
// clang-format on

// Declared only for their types. Fortran's string lengths follow the arguments.
extern "C" {
int openblas_get_parallel(void);
char* openblas_get_config(void);
char* openblas_get_corename(void);
#define MT_DECLARED(T, x)                                                                          \
  void cblas_##x##gemm(int order, int ta, int tb, int m, int n, int k, T alpha, const T* a,        \
                       int lda, const T* b, int ldb, T beta, T* c, int ldc);                       \
  void x##getrf_(const int*, const int*, T*, const int*, int*, int*);                              \
  void x##getri_(const int*, T*, const int*, const int*, T*, const int*, int*);                    \
  void x##potrf_(const char*, const int*, T*, const int*, int*, size_t);                           \
  void x##trsm_(const char*, const char*, const char*, const char*, const int*, const int*,        \
                const T*, const T*, const int*, T*, const int*, size_t, size_t, size_t, size_t);   \
  void x##laswp_(const int*, T*, const int*, const int*, const int*, const int*, const int*);      \
  void x##syrk_(const char*, const char*, const int*, const int*, const T*, const T*, const int*,  \
                const T*, T*, const int*, size_t, size_t);                                         \
  void x##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);                \
  void x##orgqr_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*,     \
                 int*);                                                                            \
  void x##gesdd_(const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*,      \
                 const int*, T*, const int*, int*, int*, size_t);                                  \
  void x##gesvd_(const char*, const char*, const int*, const int*, T*, const int*, T*, T*,         \
                 const int*, T*, const int*, T*, const int*, int*, size_t, size_t);                \
  void x##syevd_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, int*,   \
                 const int*, int*, size_t, size_t);                                                \
  void x##geqrt3_(const int*, const int*, T*, const int*, T*, const int*, int*);                   \
  void x##larfg_(const int*, T*, T*, const int*, T*);                                              \
  void x##larft_(const char*, const char*, const int*, const int*, const T*, const int*, const T*, \
                 T*, const int*, size_t, size_t);                                                  \
  void x##larfb_(const char*, const char*, const char*, const char*, const int*, const int*,       \
                 const int*, const T*, const int*, const T*, const int*, T*, const int*, T*,       \
                 const int*, size_t, size_t, size_t, size_t);                                      \
  void x##gemv_(const char*, const int*, const int*, const T*, const T*, const int*, const T*,     \
                const int*, const T*, T*, const int*, size_t);                                     \
  void x##symv_(const char*, const int*, const T*, const T*, const int*, const T*, const int*,     \
                const T*, T*, const int*, size_t);                                                 \
  void x##sytrd_(const char*, const int*, T*, const int*, T*, T*, T*, T*, const int*, int*,        \
                 size_t);                                                                          \
  void x##stedc_(const char*, const int*, T*, T*, T*, const int*, T*, const int*, int*,            \
                 const int*, int*, size_t);                                                        \
  void x##gebrd_(const int*, const int*, T*, const int*, T*, T*, T*, T*, T*, const int*, int*);    \
  void x##bdsdc_(const char*, const char*, const int*, T*, T*, T*, const int*, T*, const int*, T*, \
                 int*, T*, int*, int*, size_t, size_t);                                            \
  void x##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, T*, const int*, T*,  \
                const int*, T*, const int*, int*, size_t, size_t);                                 \
  void x##gels_(const char*, const int*, const int*, const int*, T*, const int*, T*, const int*,   \
                T*, const int*, int*, size_t);                                                     \
  void x##gelsy_(const int*, const int*, const int*, T*, const int*, T*, const int*, int*,         \
                 const T*, int*, T*, const int*, int*);                                            \
  void x##gelss_(const int*, const int*, const int*, T*, const int*, T*, const int*, T*, const T*, \
                 int*, T*, const int*, int*);                                                      \
  void x##gelsd_(const int*, const int*, const int*, T*, const int*, T*, const int*, T*, const T*, \
                 int*, T*, const int*, int*, int*);
MT_DECLARED(float, s)
MT_DECLARED(double, d)
#undef MT_DECLARED
}

namespace mt::openblas {

/// The functions, and what the doctor prints about them.
struct Library {
#define MT_MEMBER(name) decltype(&::name) name;
  MT_OPENBLAS(MT_MEMBER)
#undef MT_MEMBER
  const char* path;  // the file
  const char* note;  // how its kernels were selected, if not by best_core(); else ""
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
