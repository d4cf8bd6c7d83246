// rabit::utils::GetTime().
#pragma once

#include "rabit/internal/utils.h"
