// fuzz_idx.cpp -- the IDX parser, and gzip
#include "engine/io/formats.h"
#include "tests/fuzz/fuzz.h"

MT_FUZZ({ mt::parse_idx(mt::Bytes(mt::file_of(data, size))); })
