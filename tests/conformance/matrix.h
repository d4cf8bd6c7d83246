#pragma once

// 2x2 matrices over the integers modulo a prime. Their product is associative, exact and not
// commutative, so a reduction that changes the order of ranks gives another result.

#include "check.h"

enum { kMatrixInts = 4, kMatrixPrime = 10007 };

/** Computes left = left x right for `count` matrices of kMatrixInts ints each. */
static inline void matrix_multiply_right(int* left, const int* right, int count) {
  for (int m = 0; m < count; ++m, left += kMatrixInts, right += kMatrixInts) {
    int a = (left[0] * right[0] + left[1] * right[2]) % kMatrixPrime;
    int b = (left[0] * right[1] + left[1] * right[3]) % kMatrixPrime;
    int c = (left[2] * right[0] + left[3] * right[2]) % kMatrixPrime;
    int d = (left[2] * right[1] + left[3] * right[3]) % kMatrixPrime;
    left[0] = a;
    left[1] = b;
    left[2] = c;
    left[3] = d;
  }
}

/** MPI_User_function: inout = in x inout. An element is a matrix. */
static inline void matrix_user_function(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  const int* left = (const int*)in;
  int* right = (int*)inout;
  for (int m = 0; m < *count; ++m, left += kMatrixInts, right += kMatrixInts) {
    int product[kMatrixInts];
    memcpy(product, left, sizeof product);
    matrix_multiply_right(product, right, 1);
    memcpy(right, product, sizeof product);
  }
}

/** Returns int `index` of the matrices that `source` contributes. */
static inline int matrix_entry(int source, int index) {
  return (pattern(source, 77, index) + 1000) % kMatrixPrime;
}

/** Returns a committed type of one matrix, which the caller frees. */
static inline MPI_Datatype new_matrix_type(void) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  OK(MPI_Type_contiguous(kMatrixInts, MPI_INT, &type));
  OK(MPI_Type_commit(&type));
  return type;
}
