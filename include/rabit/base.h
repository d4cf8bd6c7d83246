// What every header of this folder needs. The headers are C++11.
#pragma once

// Marks what librabit.so offers; everything else in it is hidden.
#define RABIT_API __attribute__((visibility("default")))
