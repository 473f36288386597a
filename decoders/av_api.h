/* FFmpeg, loaded when the first value needs it: some 130 shared libraries come with it, which a
 * sidecar that feeds pictures or text should neither wait for nor hold in memory. Its functions are
 * called through one table, hr_av.NAME(…), which is empty until hr_av_load has returned 0. */
#ifndef HR_DECODERS_AV_API_H
#define HR_DECODERS_AV_API_H

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <libswresample/swresample.h>
#include <libswscale/swscale.h>

#include "base/err.h"

/* The display matrix lies in the codec parameters since libavformat 60.15. */
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
#define HR_AV_SIDE_DATA(X) X(CODEC, av_packet_side_data_get)
#else
#define HR_AV_SIDE_DATA(X) X(FORMAT, av_stream_get_side_data)
#endif

/* X(library, function) */
#define HR_AV_FUNCTIONS(X)                                                                         \
    HR_AV_SIDE_DATA(X)                                                                             \
    X(UTIL, av_d2q)                                                                                \
    X(UTIL, av_dict_free)                                                                          \
    X(UTIL, av_dict_set)                                                                           \
    X(UTIL, av_display_rotation_get)                                                               \
    X(UTIL, av_frame_alloc)                                                                        \
    X(UTIL, av_frame_free)                                                                         \
    X(UTIL, av_frame_get_buffer)                                                                   \
    X(UTIL, av_frame_make_writable)                                                                \
    X(UTIL, av_frame_move_ref)                                                                     \
    X(UTIL, av_frame_unref)                                                                        \
    X(UTIL, av_free)                                                                               \
    X(UTIL, av_freep)                                                                              \
    X(UTIL, av_get_bytes_per_sample)                                                               \
    X(UTIL, av_get_packed_sample_fmt)                                                              \
    X(UTIL, av_get_pix_fmt_name)                                                                   \
    X(UTIL, av_image_copy_to_buffer)                                                               \
    X(UTIL, av_image_get_buffer_size)                                                              \
    X(UTIL, av_log_set_callback)                                                                   \
    X(UTIL, av_malloc)                                                                             \
    X(UTIL, av_max_alloc)                                                                          \
    X(UTIL, av_pix_fmt_desc_get)                                                                   \
    X(UTIL, av_rescale_q)                                                                          \
    X(UTIL, av_sample_fmt_is_planar)                                                               \
    X(UTIL, av_strerror)                                                                           \
    X(CODEC, av_packet_alloc)                                                                      \
    X(CODEC, av_packet_free)                                                                       \
    X(CODEC, av_packet_ref)                                                                        \
    X(CODEC, av_packet_rescale_ts)                                                                 \
    X(CODEC, av_packet_unref)                                                                      \
    X(CODEC, avcodec_alloc_context3)                                                               \
    X(CODEC, avcodec_find_decoder)                                                                 \
    X(CODEC, avcodec_find_encoder)                                                                 \
    X(CODEC, avcodec_flush_buffers)                                                                \
    X(CODEC, avcodec_free_context)                                                                 \
    X(CODEC, avcodec_get_name)                                                                     \
    X(CODEC, avcodec_open2)                                                                        \
    X(CODEC, avcodec_parameters_alloc)                                                             \
    X(CODEC, avcodec_parameters_copy)                                                              \
    X(CODEC, avcodec_parameters_free)                                                              \
    X(CODEC, avcodec_parameters_from_context)                                                      \
    X(CODEC, avcodec_parameters_to_context)                                                        \
    X(CODEC, avcodec_receive_frame)                                                                \
    X(CODEC, avcodec_receive_packet)                                                               \
    X(CODEC, avcodec_send_frame)                                                                   \
    X(CODEC, avcodec_send_packet)                                                                  \
    X(CODEC, avcodec_version)                                                                      \
    X(FORMAT, av_find_best_stream)                                                                 \
    X(FORMAT, av_find_input_format)                                                                \
    X(FORMAT, av_interleaved_write_frame)                                                          \
    X(FORMAT, av_read_frame)                                                                       \
    X(FORMAT, av_write_trailer)                                                                    \
    X(FORMAT, avformat_alloc_context)                                                              \
    X(FORMAT, avformat_alloc_output_context2)                                                      \
    X(FORMAT, avformat_close_input)                                                                \
    X(FORMAT, avformat_find_stream_info)                                                           \
    X(FORMAT, avformat_free_context)                                                               \
    X(FORMAT, avformat_index_get_entries_count)                                                    \
    X(FORMAT, avformat_index_get_entry)                                                            \
    X(FORMAT, avformat_new_stream)                                                                 \
    X(FORMAT, avformat_open_input)                                                                 \
    X(FORMAT, avformat_write_header)                                                               \
    X(FORMAT, avio_alloc_context)                                                                  \
    X(FORMAT, avio_close_dyn_buf)                                                                  \
    X(FORMAT, avio_context_free)                                                                   \
    X(FORMAT, avio_open_dyn_buf)                                                                   \
    X(RESAMPLE, swr_alloc_set_opts2)                                                               \
    X(RESAMPLE, swr_convert)                                                                       \
    X(RESAMPLE, swr_free)                                                                          \
    X(RESAMPLE, swr_init)                                                                          \
    X(SCALE, sws_freeContext)                                                                      \
    X(SCALE, sws_getCachedContext)                                                                 \
    X(SCALE, sws_getCoefficients)                                                                  \
    X(SCALE, sws_scale)                                                                            \
    X(SCALE, sws_setColorspaceDetails)

struct hr_av_api {
#define HR_AV_MEMBER(library, function) __typeof__(function) *function;
    HR_AV_FUNCTIONS(HR_AV_MEMBER)
#undef HR_AV_MEMBER
};

/* Written once, inside hr_av_load. */
extern struct hr_av_api hr_av;

/* Any thread, any number of times: the first call loads the libraries (of the major versions that
 * Headrace was built with) and makes the settings of the process: no messages on stderr, a cap on
 * one allocation. Objects of FFmpeg exist only after it, so what frees them need not ask.
 * HR_E_UNSUPPORTED names what is missing and the package that has it. */
int hr_av_load(struct hr_error *err) HR_MUST_CHECK;

/* Makes what is still NULL, loading FFmpeg before the first: for the packet and the frame of a decoder, which
 * are made by the first value that needs them. */
int hr_av_prepare(AVPacket **packet, AVFrame **frame, struct hr_error *err) HR_MUST_CHECK;

/* The reason that FFmpeg gave last on this thread: its last message since hr_av_forget, else the
 * text of the code. */
const char *hr_av_reason(int averror);
void hr_av_forget(void);
const char *hr_av_message(void); /* the message alone, "" when there is none */

#endif
