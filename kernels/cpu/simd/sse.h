// sse.h -- the intrinsics of SSE2 and, as the build allows, of AVX; on Arm those of SSE2 and FMA, by SIMDe with NEON
#pragma once
#ifdef __aarch64__
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/fma.h>
#else
#ifndef __clang__
#pragma GCC diagnostic push  // for a warning in g++ 12's own header: bug 105593
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#ifdef __AVX2__
#include <immintrin.h>
#else
#include <emmintrin.h>  // a tenth of the size of the header for all instruction sets
#endif
#ifndef __clang__
#pragma GCC diagnostic pop
#endif
#endif
