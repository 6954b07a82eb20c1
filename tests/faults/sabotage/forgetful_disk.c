/* A disk that loses what was not synced, under a process whose libraries write by themselves, as RocksDB does. Loaded with LD_PRELOAD.

The rules and the second folder are those of forgetful_files.py: each fsync copies what it makes durable, a file's content by its inode and a
folder's entries by the folder's inode. As in the journal of a file system, an fsync also makes the entries of all folders above durable.
FORGETFUL_ROOT is the folder that forgets; STREAMACTORS_FORGETFUL_DISK is the second folder. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static int inside(const char *path) {
    const char *root = getenv("FORGETFUL_ROOT");
    return root && strncmp(path, root, strlen(root)) == 0;
}

static FILE *begin(ino_t inode, char *temporary) {
    snprintf(temporary, PATH_MAX, "%s/%lu.%d.new", getenv("STREAMACTORS_FORGETFUL_DISK"), (unsigned long)inode, getpid());
    return fopen(temporary, "w");
}

static void end(FILE *out, ino_t inode, const char *temporary) {
    char target[PATH_MAX];
    fclose(out);
    snprintf(target, sizeof target, "%s/%lu", getenv("STREAMACTORS_FORGETFUL_DISK"), (unsigned long)inode);
    rename(temporary, target);
}

static void copy_file(int fd, const struct stat *here) {
    char temporary[PATH_MAX], path[64], buffer[1 << 16];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    FILE *in = fopen(path, "r"), *out = begin(here->st_ino, temporary);
    if (!in || !out) abort();
    for (size_t got; (got = fread(buffer, 1, sizeof buffer, in)) > 0;) fwrite(buffer, 1, got, out);
    fclose(in);
    end(out, here->st_ino, temporary);
}

static void copy_entries(const char *folder) {
    char temporary[PATH_MAX], child[PATH_MAX * 2];
    struct stat here, each;
    DIR *entries = opendir(folder);
    if (!entries || stat(folder, &here)) abort();
    FILE *out = begin(here.st_ino, temporary);
    const char *comma = "";
    fputc('{', out);
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        snprintf(child, sizeof child, "%s/%s", folder, entry->d_name);
        if (stat(child, &each)) continue; /* it has just been removed */
        fprintf(out, "%s\"%s\": [%lu, %s]", comma, entry->d_name, (unsigned long)each.st_ino, S_ISDIR(each.st_mode) ? "true" : "false");
        comma = ", ";
    }
    fputc('}', out);
    closedir(entries);
    end(out, here.st_ino, temporary);
}

static void synced(int fd) {
    char link[64], path[PATH_MAX];
    struct stat here;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0 || fstat(fd, &here)) return;
    path[length] = 0;
    if (!inside(path)) return;
    pthread_mutex_lock(&one_at_a_time);
    if (S_ISDIR(here.st_mode)) copy_entries(path);
    else copy_file(fd, &here);
    for (char *slash; (slash = strrchr(path, '/')) && slash != path;) {
        *slash = 0;
        if (!inside(path)) break;
        copy_entries(path);
    }
    pthread_mutex_unlock(&one_at_a_time);
}

int fsync(int fd) { synced(fd); return 0; }
int fdatasync(int fd) { synced(fd); return 0; }

/* A removed file stays open, or a new file could get its inode and, after the power cut, its content. */
static void keep(const char *path) {
    struct stat here;
    if (inside(path) && !stat(path, &here) && S_ISREG(here.st_mode)) open(path, O_RDONLY | O_CLOEXEC);
}

int unlink(const char *path) {
    static int (*real)(const char *);
    if (!real) real = (int (*)(const char *))dlsym(RTLD_NEXT, "unlink");
    keep(path);
    return real(path);
}

int rename(const char *from, const char *to) {
    static int (*real)(const char *, const char *);
    if (!real) real = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    keep(to);
    return real(from, to);
}
