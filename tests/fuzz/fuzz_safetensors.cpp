// fuzz_safetensors.cpp -- the safetensors parser
#include "engine/io/tensor_files.h"
#include "tests/fuzz/fuzz.h"

MT_FUZZ({ mt::parse_safetensors(mt::Bytes(mt::file_of(data, size))); })
