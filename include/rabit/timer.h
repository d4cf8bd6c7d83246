// Where the ancestor's first versions had rabit/internal/timer.h.
#pragma once

#include "rabit/internal/timer.h"
