// fuzz_npy.cpp -- the parser of npy files
#include "engine/io/tensor_files.h"
#include "tests/fuzz/fuzz.h"

MT_FUZZ({ mt::parse_npy(mt::Bytes(mt::file_of(data, size))); })
