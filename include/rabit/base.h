// Included by every header of this folder. The headers are C++11.
#pragma once

// Marks the functions that librabit.so exports; everything else in it is hidden.
#define RABIT_API __attribute__((visibility("default")))
