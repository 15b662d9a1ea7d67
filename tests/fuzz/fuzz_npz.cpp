// fuzz_npz.cpp -- the parser of npz files: zip archives by libzip
#include "engine/io/tensor_files.h"
#include "tests/fuzz/fuzz.h"

MT_FUZZ({ mt::parse_npz(mt::ZipReader(mt::file_of(data, size))); })
