// fuzz_npy.cpp -- the parser of npy files
#include "engine/io/npy.h"
#include "tests/fuzz/fuzz.h"

MT_FUZZ({ mt::parse_npy(data, size); })
