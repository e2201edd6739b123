/* The limit row: Dawid–Skene EM as one fused pass over the votes, with nothing between it and the
 * machine. Each iteration does what misc's ds-em does (estimated class prior, shrinkage 2):
 * M-step on the small tables, then per item log scores, softmax and the next counts in one go.
 *
 * usage: yardstick votes.bin iterations threads
 * votes.bin: int32 n_items, n_workers, n_classes; int32 pointers[n_items + 1]; int32 columns[nnz],
 *            where column = worker * n_classes + class.
 * prints: seconds per iteration (fastest, mean) and the last log-likelihood, which must be ours.
 */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_CLASSES 16
#define SHRINKAGE 2.0
#define TINY 2.220446049250313e-16

static int32_t n_items, n_workers, n_classes;
static int32_t *pointers, *columns;
static double *table, *posteriors, log_prior[MAX_CLASSES];

typedef struct {
    int first, last, start;
    double *counts, sizes[MAX_CLASSES], log_likelihood, change;
} Share;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* K is a constant in each copy, so that the compiler unrolls the loops over classes. */
static inline __attribute__((always_inline)) void sweep(Share *share, const int K) {
    double log_likelihood = 0, change = 0;
    for (int i = share->first; i < share->last; i++) {
        double row[MAX_CLASSES], total = 0;
        double *old = posteriors + (size_t)i * K;
        if (share->start) {
            for (int c = 0; c < K; c++) row[c] = 0;
            for (int j = pointers[i]; j < pointers[i + 1]; j++) row[columns[j] % K] += 1;
            for (int c = 0; c < K; c++) total += row[c];
            for (int c = 0; c < K; c++) row[c] = total > 0 ? row[c] / total : 1.0 / K;
        } else {
            for (int c = 0; c < K; c++) row[c] = log_prior[c];
            for (int j = pointers[i]; j < pointers[i + 1]; j++) {
                const double *entry = table + (size_t)columns[j] * K;
                for (int c = 0; c < K; c++) row[c] += entry[c];
            }
            double top = row[0];
            for (int c = 1; c < K; c++) top = row[c] > top ? row[c] : top;
            for (int c = 0; c < K; c++) total += row[c] = exp(row[c] - top);
            for (int c = 0; c < K; c++) row[c] /= total;
            log_likelihood += top + log(total);
        }
        for (int c = 0; c < K; c++) {
            double moved = fabs(old[c] - row[c]);
            change = moved > change ? moved : change;
            old[c] = row[c];
            share->sizes[c] += row[c];
        }
        for (int j = pointers[i]; j < pointers[i + 1]; j++) {
            double *entry = share->counts + (size_t)columns[j] * K;
            for (int c = 0; c < K; c++) entry[c] += row[c];
        }
    }
    share->log_likelihood = log_likelihood;
    share->change = change;
}

static void *walk(void *argument) {
    Share *share = argument;
    memset(share->counts, 0, sizeof(double) * n_workers * n_classes * n_classes);
    memset(share->sizes, 0, sizeof share->sizes);
    switch (n_classes) {
        case 2: sweep(share, 2); break;
        case 3: sweep(share, 3); break;
        case 4: sweep(share, 4); break;
        case 5: sweep(share, 5); break;
        default: sweep(share, n_classes);
    }
    return NULL;
}

static void sweep_all(Share *shares, int threads, int start) {
    pthread_t handles[threads];
    for (int t = 0; t < threads; t++) shares[t].start = start;
    for (int t = 1; t < threads; t++) pthread_create(handles + t, NULL, walk, shares + t);
    walk(shares);
    for (int t = 1; t < threads; t++) {
        pthread_join(handles[t], NULL);
        size_t n = (size_t)n_workers * n_classes * n_classes;
        for (size_t j = 0; j < n; j++) shares[0].counts[j] += shares[t].counts[j];
        for (int c = 0; c < n_classes; c++) shares[0].sizes[c] += shares[t].sizes[c];
        shares[0].log_likelihood += shares[t].log_likelihood;
    }
}

/* counts[(w, observed k), true c] → table of log confusions in the same order */
static void m_step(const double *counts, const double *sizes) {
    const int K = n_classes;
    double crowd[MAX_CLASSES][MAX_CLASSES] = {{0}}, total = 0;
    for (int w = 0; w < n_workers; w++)
        for (int k = 0; k < K; k++)
            for (int c = 0; c < K; c++) crowd[k][c] += counts[((size_t)w * K + k) * K + c];
    for (int c = 0; c < K; c++) {
        double sum = 0;
        for (int k = 0; k < K; k++) sum += crowd[k][c] + TINY;
        for (int k = 0; k < K; k++) crowd[k][c] = (crowd[k][c] + TINY) / sum;
        total += sizes[c] + TINY;
    }
    for (int c = 0; c < K; c++) log_prior[c] = log((sizes[c] + TINY) / total);
    for (int w = 0; w < n_workers; w++) {
        const double *seen = counts + (size_t)w * K * K;
        double *logs = table + (size_t)w * K * K, sums[MAX_CLASSES] = {0};
        for (int k = 0; k < K; k++)
            for (int c = 0; c < K; c++)
                sums[c] += logs[k * K + c] = seen[k * K + c] + SHRINKAGE * crowd[k][c] + TINY;
        for (int k = 0; k < K; k++)
            for (int c = 0; c < K; c++) logs[k * K + c] = log(logs[k * K + c] / sums[c]);
    }
}

static void *read_block(FILE *file, size_t bytes) {
    void *block = malloc(bytes);
    if (!block || fread(block, 1, bytes, file) != bytes) {
        fprintf(stderr, "votes file is too short\n");
        exit(2);
    }
    return block;
}

int main(int argc, char **argv) {
    FILE *file = argc == 4 ? fopen(argv[1], "rb") : NULL;
    int32_t sizes[3];
    if (!file || fread(sizes, sizeof *sizes, 3, file) != 3 || sizes[2] > MAX_CLASSES) {
        fprintf(stderr, "usage: yardstick votes.bin iterations threads (at most 16 classes)\n");
        return 2;
    }
    const int iterations = atoi(argv[2]), threads = atoi(argv[3]);
    n_items = sizes[0], n_workers = sizes[1], n_classes = sizes[2];
    pointers = read_block(file, sizeof(int32_t) * ((size_t)n_items + 1));
    columns = read_block(file, sizeof(int32_t) * (size_t)pointers[n_items]);
    fclose(file);

    const size_t cells = (size_t)n_workers * n_classes * n_classes;
    table = malloc(sizeof(double) * cells);
    posteriors = calloc((size_t)n_items * n_classes, sizeof(double));
    Share shares[threads];
    for (int t = 0; t < threads; t++) {
        shares[t].first = (int)((int64_t)n_items * t / threads);
        shares[t].last = (int)((int64_t)n_items * (t + 1) / threads);
        shares[t].counts = malloc(sizeof(double) * cells);
    }
    sweep_all(shares, threads, 1);
    double fastest = INFINITY;
    const double began = now();
    for (int iteration = 0; iteration < iterations; iteration++) {
        const double from = now();
        m_step(shares[0].counts, shares[0].sizes);
        sweep_all(shares, threads, 0);
        const double took = now() - from;
        fastest = took < fastest ? took : fastest;
    }
    printf("%.6f %.6f %.6f\n", fastest, (now() - began) / iterations, shares[0].log_likelihood);
    return 0;
}
