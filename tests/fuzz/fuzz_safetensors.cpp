// fuzz_safetensors.cpp -- the safetensors parser
#include "engine/io/safetensors.h"
#include "tests/fuzz/fuzz.h"

MT_FUZZ({ mt::parse_safetensors(data, size); })
