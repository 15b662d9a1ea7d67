// fuzz_safetensors.cpp -- the safetensors parser
#include "engine/io/tensor_files.h"
#include "tests/fuzz/fuzz.h"

MT_FUZZ({ mt::parse_safetensors(data, size); })
