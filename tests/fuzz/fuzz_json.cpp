// fuzz_json.cpp -- the JSON parser
#include "engine/io/json.h"
#include "tests/fuzz/fuzz.h"

MT_FUZZ({ mt::parse_json({data, size}); })
